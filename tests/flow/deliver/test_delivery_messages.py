"""Delivery messages that come back: sent, parked, dropped, or put off again."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from consumer.core.model import Attempt, OutcomeKind, ParkReason
from consumer.ports import Source
from tests.support.fakes import START, settled
from tests.support.fakes_sender import Reply
from tests.support.worker import (
    DUE,
    SHOP,
    Worker,
    delivery_message,
    due,
    event,
    event_message,
)


async def test_an_exhausted_delivery_is_parked_with_every_attempt(worker: Worker) -> None:
    """The fifth failure parks it with all five attempts and the reason (S1-2, S1-3)."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    before = tuple(
        Attempt(number=n, at=START, kind=OutcomeKind.HTTP_5XX, status=500, duration_s=0.1)
        for n in range(1, 5)
    )

    ticket = await worker.handle(delivery_message(due(shop.id, attempts=before, attempts_made=4)), Source.DUE)

    [entry] = worker.parked()
    assert entry.reason is ParkReason.EXHAUSTED
    assert entry.delivery is not None
    assert [a.number for a in entry.delivery.attempts] == [1, 2, 3, 4, 5]
    assert entry.delivery.attempts[-1].status == 503
    assert entry.ttl_s == worker.context.bounds.parked_ttl_s
    assert ticket.settles == ["ack"]


async def test_gone_disables_and_parks_later_deliveries(worker: Worker) -> None:
    """410: disabled in memory and store; waiting deliveries are parked, new events unmatched (fault 38)."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=410))

    await worker.handle(event_message())
    await worker.handle(delivery_message(due(shop.id, event=event(id="ord-2"))), Source.DUE)
    await worker.handle(event_message(message_id="ord-3"))

    assert worker.sent("shop") == 1
    assert [entry.reason for entry in worker.parked()] == [ParkReason.DISABLED] * 2
    await worker.subscriptions.settle()
    assert not (await worker.store.entries())[0].enabled
    assert worker.count("events_total", outcome="unmatched") == 1


async def test_old_deliveries_are_parked_as_expired(worker: Worker) -> None:
    """``max_age_s`` ends a delivery on arrival, without a request (S1-15, fault 55)."""
    shop = await worker.subscribe("shop", retry={"max_age_s": 30})

    await worker.handle(delivery_message(due(shop.id, event=event(arrived_at=START - 30))), Source.DUE)

    assert worker.sender.sent == []
    assert [entry.reason for entry in worker.parked()] == [ParkReason.EXPIRED]


async def test_a_deleted_subscription_drops_its_deliveries(worker: Worker) -> None:
    """Dropped as cancelled, counted, no request; its siblings are sent (fault 31)."""
    shop, crm = await worker.subscribe("shop"), await worker.subscribe("crm")
    await worker.unsubscribe("crm")

    ticket = await worker.handle(delivery_message(due(shop.id, crm.id)), Source.DUE)

    assert (worker.sent("shop"), worker.sent("crm")) == (1, 0)
    assert worker.count("deliveries_total", verdict="cancelled") == 1
    assert ticket.settles == ["ack"]


async def test_a_changed_url_is_used_by_waiting_deliveries(worker: Worker) -> None:
    """A retry goes to the new URL of its subscription (fault 32)."""
    shop = await worker.subscribe("shop")
    await worker.unsubscribe("shop")
    await worker.subscribe("shop", url="https://new.example/")

    await worker.handle(delivery_message(due(shop.id)), Source.DUE)

    assert [request.url for request in worker.sender.sent] == ["https://new.example/"]


async def test_an_early_delivery_takes_a_further_rung(worker: Worker) -> None:
    """Back with 5 s of 20 left, it takes the largest rung below; nothing is sent, no attempt spent."""
    shop = await worker.subscribe("shop")
    early = due(shop.id, not_before=START + 5, wait_s=20.0, attempts_made=1)

    ticket = await worker.handle(delivery_message(early), Source.DUE)

    assert [p.key for p in worker.publisher.confirmed] == [f"4000.{DUE}"]
    assert worker.waiting() == [replace(early, served_s=4.0)]
    assert ticket.settles == ["ack"]
    assert worker.sender.sent == []


@pytest.mark.parametrize(
    ("rest_s", "wait_s", "exact", "held"),
    [
        (1.0, 20.0, False, True),
        (1.1, 20.0, False, False),
        (1.1, 55.0, False, True),
        (1.2, 55.0, False, False),
        (1.1, 55.0, True, False),
        (0.9, 55.0, True, True),
        (11.0, 3600.0, False, False),
    ],
)
async def test_only_the_last_second_or_two_percent_is_held(
    worker: Worker, rest_s: float, wait_s: float, exact: bool, held: bool
) -> None:
    """A rest of 1 s or 2 % is waited out here, a ``Retry-After`` to within 1 s; more takes a rung."""
    shop = await worker.subscribe("shop")
    early = due(shop.id, not_before=START + rest_s, wait_s=wait_s, exact=exact)

    ticket = await worker.handle(delivery_message(early), Source.DUE)

    assert (ticket.settles == []) is held
    assert worker.intake.unstarted() == held
    if held:
        await worker.clock.advance(rest_s + 0.001)
        await worker.intake.idle()
        [(_, at)] = worker.sender.started
        assert rest_s - 1e-6 <= at <= rest_s + 0.001
    assert ticket.settles == ["ack"]


async def test_a_reserved_moment_is_kept(worker: Worker) -> None:
    """Held here until its reservation; deliveries that came meanwhile queue behind it."""
    shop = await worker.subscribe("shop", rate_per_s=2, burst=1)
    for n in range(3):
        worker.offer(delivery_message(due(shop.id, event=event(id=f"ord-{n}"))), Source.DUE)
    await settled()
    await worker.clock.advance(0.4)
    for n in range(20):
        worker.offer(event_message(message_id=f"fresh-{n}"))
    await worker.clock.advance(0.61)

    ids = [dict(request.headers)["webhook-id"] for request in worker.sender.sent]
    assert ids == ["ord-0", "ord-1", "ord-2"]
    assert all(message.reserved for message in worker.waiting())


@pytest.mark.parametrize(
    ("held", "by_hand_until", "age_s"), [(True, 0.0, 900.0), (True, START + 90, 0.0), (False, 0.0, 0.0)]
)
async def test_a_check_of_a_held_delivery_shows_its_age(
    worker: Worker, *, held: bool, by_hand_until: float, age_s: float
) -> None:
    """S2-4: a delivery that its endpoint holds is seen at each check; one that an operator holds is not."""
    shop = await worker.subscribe("shop")
    old = event(arrived_at=START - 900)
    early = due(
        shop.id, event=old, not_before=START + 90, wait_s=120.0, held=held, by_hand_until=by_hand_until
    )

    await worker.handle(delivery_message(early), Source.DUE)
    worker.context.observe.owed(inf, START)

    assert worker.count("oldest_delivery_seconds") == age_s


async def test_held_messages_are_bounded() -> None:
    """Past the bound the rest of a wait takes a rung instead of memory."""
    worker = Worker(due_hold=3)
    shop = await worker.subscribe("shop")
    for n in range(5):
        early = due(shop.id, event=event(id=f"ord-{n}"), not_before=START + 0.5, wait_s=1.0)
        await worker.handle(delivery_message(early), Source.DUE)

    assert worker.intake.unstarted() == 3
    assert [p.key for p in worker.publisher.confirmed] == [f"500.{DUE}"] * 2
    assert [ticket.settles for ticket in worker.tickets] == [[], [], [], ["ack"], ["ack"]]


async def test_an_unknown_version_goes_back_to_the_ladder(worker: Worker) -> None:
    """A newer worker's message waits 30 s for a newer worker, unchanged (rolling upgrades)."""
    shop = await worker.subscribe("shop")
    raw = delivery_message(due(shop.id))
    raw.headers = {**raw.headers, "leveret-v": 2, "leveret-new": "x", "x-delivery-count": 1}

    ticket = await worker.handle(raw, Source.DUE)

    [published] = worker.publisher.confirmed
    assert published.key == f"30000.{DUE}"
    assert published.headers == {k: v for k, v in raw.headers.items() if k.startswith("leveret-")}
    assert published.publication.body == raw.body
    assert ticket.settles == ["ack"]


async def test_a_stranger_on_a_due_queue_is_parked(worker: Worker) -> None:
    """Somebody published to our queue: parked raw as malformed, never sent."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message(queue=DUE), Source.DUE)

    assert [entry.reason for entry in worker.parked()] == [ParkReason.MALFORMED]
    assert ticket.settles == ["ack"]
    assert worker.sender.sent == []


@pytest.mark.parametrize("by", ["a pause", "an opened breaker"])
async def test_the_time_of_a_hold_by_hand_is_not_late(worker: Worker, by: str) -> None:
    """A delivery that an operator held for twenty minutes was delivered in time; a failure after is late."""
    shop = await worker.subscribe("shop", retry={"base_s": 1, "jitter": 0})
    if by == "a pause":
        worker.store.paused.add(shop.id)
        await worker.subscriptions.reload()
    else:
        worker.endpoints.force(shop)
    await worker.handle(event_message())
    worker.clock.passed_s += 1200
    await worker.handle(delivery_message(worker.waiting()[-1]), Source.DUE)
    worker.store.paused.clear()
    await worker.subscriptions.reload()
    worker.endpoints.reset(shop, worker.clock.now())
    worker.clock.passed_s += 200
    worker.sender.on(SHOP, Reply(status=503), Reply())

    await worker.handle(delivery_message(worker.waiting()[-1]), Source.DUE)
    worker.clock.passed_s += 100
    await worker.handle(delivery_message(worker.waiting()[-1]), Source.DUE)

    assert worker.sent("shop") == 2
    assert worker.count("delivery_seconds_bucket", le="300.0") == 1
    assert worker.count("delivery_seconds_bucket", le="60.0") == 0
