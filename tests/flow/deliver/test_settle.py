"""Each message ends in exactly one settle, in spite of faults of the broker and bugs."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.ports import Source
from tests.support.fakes import run_virtually
from tests.support.fakes_sender import Reply
from tests.support.worker import (
    SHOP,
    Worker,
    delivery_message,
    due,
    event_message,
    slow,
)

FAULTS = st.sampled_from(
    [None, BrokerUnavailable("lost"), Unroutable("no queue"), Refused("full"), BrokerUnavailable("closed")]
)


STATUSES = st.sampled_from([200, 204, 302, 400, 404, 410, 429, 500, 503])


@settings(max_examples=80)
@given(
    st.lists(st.tuples(STATUSES, st.booleans(), st.integers(0, 8)), min_size=1, max_size=6),
    st.lists(FAULTS, max_size=12),
    st.booleans(),
)
def test_every_message_ends_in_one_settle(
    targets: list[tuple[int, bool, int]], faults: list[Exception | None], fresh: bool
) -> None:
    """For all endpoints and brokers: one ack, after every owed publication, and nothing after it."""

    async def main() -> None:
        worker = Worker()
        ids, owed = [], 0
        for number, (status, is_slow, latency) in enumerate(targets):
            name = f"e{number}"
            subscription = await worker.subscribe(name)
            ids.append(subscription.id)
            url = subscription.url
            if is_slow and len(targets) > 1:
                worker.endpoint(subscription).latency.learn(2.0, worker.clock.now(), taken=True)
                owed += 1
            else:
                owed += status >= 300
            worker.sender.on(url, Reply(status=status))
            worker.sender.latency_s[url] = latency / 10
        worker.publisher.faults = list(faults)
        if fresh:
            ticket = await worker.handle(event_message())
        else:
            ticket = await worker.handle(delivery_message(due(*ids)), Source.DUE)
        await worker.clock.advance(60)

        refused = sum(isinstance(fault, Refused) for fault in faults)
        assert ticket.settles == ["ack"]
        assert worker.journal.words()[-1] == "ack"
        assert len(worker.publisher.confirmed) == owed
        assert len(worker.journal.places("publishing")) - owed <= len(faults)
        assert worker.count("publish_failures_total", error="refused") <= refused
        assert worker.bugs() == []
        assert (worker.intake.slots.free, worker.sender.in_flight) == (256, 0)

    run_virtually(main)


async def test_a_broker_that_is_away_keeps_the_source_unacked(worker: Worker) -> None:
    """Nothing is acked before every owed delivery is confirmed, however long it takes (faults 59, 64)."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.connected = False
    ticket = worker.offer(event_message())

    await worker.clock.advance(3600)

    assert ticket.settles == []
    assert worker.sent("shop") == 1
    worker.publisher.connected = True
    await worker.intake.idle()
    assert ticket.settles == ["ack"]
    assert worker.sent("shop") == 1


async def test_a_full_parked_queue_sends_the_entry_to_overflow(worker: Worker) -> None:
    """Refused by parked: published as refused, confirmed there, then acked (fault 64)."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=400))
    worker.publisher.full = {"parked."}

    ticket = await worker.handle(event_message())

    assert [p.key for p in worker.publisher.confirmed] == ["refused.permanent"]
    assert ticket.settles == ["ack"]
    assert worker.clock.monotonic() == 0


async def test_a_full_rung_is_waited_for(worker: Worker) -> None:
    """Rungs that nack: the source stays unacked and it is tried again (fault 64)."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.full = {"1000.", "750.", "500.", "250."}
    ticket = worker.offer(event_message())
    await worker.clock.advance(30)
    tries = len(worker.journal.places("publishing"))

    worker.publisher.full = set()
    await worker.intake.idle()

    assert 5 <= tries <= 15
    assert ticket.settles == ["ack"]


async def test_the_rung_fits_the_wait_that_is_left(worker: Worker) -> None:
    """The rung is chosen when the publish has its turn, so that a wait for it makes no delivery late."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.full = {"1000."}
    ticket = worker.offer(event_message())

    await worker.clock.advance(30)

    assert [p.key.split(".")[0] for p in worker.publisher.confirmed] == ["750"]
    assert ticket.settles == ["ack"]


async def test_a_bug_gives_the_message_back(worker: Worker) -> None:
    """An unexpected error: given back once, reported, and no slot is lost."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.faults = [RuntimeError("a bug")]

    ticket = await worker.handle(event_message())

    assert ticket.settles == ["reject"]
    assert len(worker.bugs()) == 1
    assert worker.intake.slots.free == 256


async def test_a_call_that_somebody_else_cancelled_gives_the_message_back(worker: Worker) -> None:
    """Fault 98: the AMQP library cancels calls; the message would stay unsettled and unseen."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.faults = [asyncio.CancelledError()]

    ticket = await worker.handle(event_message())

    assert ticket.settles == ["reject"]
    assert len(worker.bugs()) == 1
    assert worker.intake.slots.free == 256


async def test_a_bug_while_parking_gives_the_message_back(worker: Worker) -> None:
    """Also where parking itself breaks: no path leaves a message unsettled."""
    worker.publisher.faults = [RuntimeError("a bug")]

    ticket = await worker.handle(event_message(b"{"))

    assert ticket.settles == ["reject"]
    assert len(worker.bugs()) == 1


async def test_a_bug_before_the_requests_gives_the_slots_back(worker: Worker) -> None:
    """Slots that were taken at admission are free again when storing the held targets breaks."""
    await slow(worker)
    shop = await worker.subscribe("shop")
    worker.publisher.faults = [RuntimeError("a bug")]

    ticket = await worker.handle(event_message())

    assert ticket.settles == ["reject"]
    assert worker.endpoint(shop).slots.in_flight == 0
