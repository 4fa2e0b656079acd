"""Deliveries whose subscription is not in memory: cancelled with a tombstone, else kept (faults 31, 81)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.core.errors import StoreUnavailable
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import ParkReason
from consumer.core.subscription.subscription import subscription_id
from consumer.flow.deliver.orphans import LOOK_AGAIN_S, LOOKS_PER_S
from consumer.ports import Source
from tests.support.fakes import START
from tests.support.worker import LoopBack, Worker, delivery_message, event

CRM = subscription_id("acme", "crm")
STRANGER = "sub_0123456789abcdef"


def owed(*targets: str, **more: object) -> DeliveryMessage:
    """Return a delivery message for some targets."""
    return DeliveryMessage(event=event(**more), targets=targets)


async def test_a_deleted_subscription_is_cancelled_and_archived(worker: Worker) -> None:
    """Fault 31: on disk before the ack, with the body and the name of the person that deleted it."""
    await worker.subscribe("crm")
    await worker.unsubscribe("crm")

    ticket = await worker.handle(delivery_message(owed(CRM)), Source.DUE)

    [line] = worker.archive.entries
    assert (line["event_id"], line["subscription_id"], line["reason"]) == ("ord-1", CRM, "cancelled")
    assert "acme/crm was deleted" in str(line["detail"])
    assert line["body_base64"]
    assert worker.count("deliveries_total", verdict="cancelled") == 1
    assert ticket.settles == ["ack"]
    assert worker.waiting() == []


@pytest.mark.parametrize("source", [Source.DUE, Source.REPLAY, Source.SUSPECT, Source.STRAY])
async def test_an_unknown_subscription_waits_on(worker: Worker, source: Source) -> None:
    """Fault 81: from every queue, it is stored again with its attempts, and nothing is cancelled."""
    ticket = await worker.handle(delivery_message(owed(STRANGER)), source)

    [kept] = worker.waiting()
    assert (kept.targets, kept.attempts_made, kept.not_before) == ((STRANGER,), 0, START + LOOK_AGAIN_S)
    assert ticket.settles == ["ack"]
    assert worker.count("deferrals_total", reason="unknown") == 1
    assert worker.count("deliveries_total", verdict="cancelled") == 0
    assert worker.archive.entries == []


async def test_each_target_ends_by_itself(worker: Worker) -> None:
    """Faults 31, 81: one is sent, one cancelled, one kept."""
    await worker.subscribe("shop")
    await worker.subscribe("crm")
    await worker.unsubscribe("crm")
    shop = subscription_id("acme", "shop")

    ticket = await worker.handle(delivery_message(owed(shop, CRM, STRANGER)), Source.DUE)

    assert worker.sent("shop") == 1
    assert [line["subscription_id"] for line in worker.archive.entries] == [CRM]
    assert [kept.targets for kept in worker.waiting()] == [(STRANGER,)]
    assert ticket.settles == ["ack"]


async def test_past_its_age_it_is_parked(worker: Worker) -> None:
    """Fault 81: an operator decides; nothing waits for ever."""
    await worker.handle(delivery_message(owed(STRANGER, arrived_at=START - 86_400)), Source.DUE)

    [entry] = worker.parked()
    assert entry.reason is ParkReason.UNKNOWN_SUBSCRIPTION
    assert STRANGER in entry.detail
    assert worker.waiting() == []


async def test_while_the_store_is_away_nothing_is_cancelled_or_parked(worker: Worker) -> None:
    """Faults 68, 81: it may know the subscription, or its deletion."""
    await worker.subscribe("crm")
    await worker.unsubscribe("crm")
    worker.store.failure = StoreUnavailable("a.db: is locked")
    assert not await worker.subscriptions.reload()

    await worker.handle(delivery_message(owed(CRM)), Source.DUE)
    await worker.handle(delivery_message(owed(STRANGER, arrived_at=START - 86_400)), Source.DUE)

    assert [kept.targets for kept in worker.waiting()] == [(CRM,), (STRANGER,)]
    assert (worker.archive.entries, worker.parked()) == ([], [])


async def test_while_the_store_is_away_no_remembered_deletion_counts(worker: Worker) -> None:
    """Faults 68, 81: the subscription may have been made anew since, where only another worker saw it."""
    await worker.subscribe("crm")
    await worker.unsubscribe("crm")
    await worker.handle(delivery_message(owed(CRM)), Source.DUE)
    assert len(worker.archive.entries) == 1
    worker.store.failure = StoreUnavailable("a.db: is locked")
    assert not await worker.subscriptions.reload()

    await worker.handle(delivery_message(owed(CRM, id="ord-2")), Source.DUE)

    assert len(worker.archive.entries) == 1
    assert [kept.targets for kept in worker.waiting()] == [(CRM,)]


async def test_a_full_disk_loses_nothing(worker: Worker) -> None:
    """A delivery that the archive does not take waits on, and is cancelled later."""
    await worker.subscribe("crm")
    await worker.unsubscribe("crm")
    worker.archive.failures = [OSError(28, "No space left on device")]

    await worker.handle(delivery_message(owed(CRM)), Source.DUE)
    [kept] = worker.waiting()
    assert worker.log.events("delivery.unarchived")[0]["detail"] == "No space left on device"
    assert worker.count("deliveries_total", verdict="cancelled") == 0

    await worker.clock.advance(LOOK_AGAIN_S)
    await worker.handle(delivery_message(kept), Source.DUE)
    assert len(worker.archive.entries) == 1


async def test_created_anew_it_is_sent_again(worker: Worker) -> None:
    """Fault 31: the tombstone goes with the deletion."""
    await worker.subscribe("crm")
    await worker.unsubscribe("crm")
    await worker.subscribe("crm")

    await worker.handle(delivery_message(owed(CRM)), Source.DUE)
    assert worker.sent("crm") == 1

    assert await worker.store.tombstone(CRM) is None


async def test_many_are_spread_and_warned_of_once_a_minute(worker: Worker) -> None:
    """Fault 81: a backlog of strangers costs the broker a bounded number of looks, and the log a line."""
    for number in range(500):
        await worker.handle(delivery_message(owed(STRANGER, id=f"e{number}")), Source.DUE)

    times = sorted(kept.not_before for kept in worker.waiting())
    assert times[0] == START + LOOK_AGAIN_S
    assert times[-1] >= START + LOOK_AGAIN_S + 499 / LOOKS_PER_S - 0.01
    assert len(worker.log.events("subscription.unknown")) == 1
    await worker.clock.advance(60)
    await worker.handle(delivery_message(owed(STRANGER)), Source.DUE)
    assert len(worker.log.events("subscription.unknown")) == 2


async def test_each_look_is_as_far_from_the_one_before(worker: Worker) -> None:
    """Faults 81, 82: the served part of an earlier wait, or check, shortens no later one."""
    loop_back = LoopBack(worker)
    waited = replace(owed(STRANGER), not_before=START, wait_s=40.0, served_s=40.0, held=True)
    worker.offer(delivery_message(waited), Source.DUE)

    await worker.clock.advance(10.5 * LOOK_AGAIN_S)

    assert 10 <= len(loop_back.deliveries) <= 12
    assert not any(kept.held for kept in worker.waiting())


async def test_a_clock_that_was_set_back_delays_no_look(worker: Worker) -> None:
    """Faults 81, 82: deliveries from after the step are checked as soon as those from before it."""
    await worker.handle(delivery_message(owed(STRANGER)), Source.DUE)
    worker.clock.step_s -= 3600.0

    await worker.handle(delivery_message(owed(STRANGER)), Source.DUE)

    assert worker.waiting()[-1].wait_s == pytest.approx(LOOK_AGAIN_S, abs=0.1)
