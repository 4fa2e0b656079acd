"""The end of the grace, and the slots of endpoints: never exceeded, never lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.model import OutcomeKind
from consumer.ports import Source
from tests.support.fakes import START, run_virtually, settled
from tests.support.fakes_sender import Reply
from tests.support.worker import (
    DUE,
    NAMES,
    SHOP,
    Worker,
    delivery_message,
    due,
    event_message,
)


@pytest.mark.parametrize("names", [("shop",), ("shop", "crm", "erp")])
async def test_a_cut_request_becomes_a_delivery_message(worker: Worker, names: tuple[str, ...]) -> None:
    """At the end of the grace: published to a due queue, no attempt spent, confirmed, acked (fault 58)."""
    for name in names:
        await worker.subscribe(name)
        worker.sender.on(f"https://{name}.example/", Reply(hang=True))
    ticket = worker.offer(event_message())
    await worker.sender.arrived(len(names))

    worker.intake.pause()
    assert worker.router.cut() == len(names)
    await worker.intake.idle()

    assert ticket.settles == ["ack"]
    assert len(worker.waiting()) == len(names)
    assert {(m.attempts_made, m.attempts, m.not_before) for m in worker.waiting()} == {(0, (), START)}
    assert {p.publication.exchange for p in worker.publisher.confirmed} == {NAMES.due}
    assert worker.journal.words()[-1] == "ack"
    assert worker.bugs() == []


async def test_a_cut_keeps_the_answers_so_far(worker: Worker) -> None:
    """Of two targets one was delivered: only the other one is stored."""
    await worker.subscribe("shop")
    crm = await worker.subscribe("crm")
    worker.sender.on("https://crm.example/", Reply(hang=True))
    worker.offer(event_message())
    await worker.sender.arrived(2)
    await settled()

    worker.router.cut()
    await worker.intake.idle()

    assert [m.targets for m in worker.waiting()] == [(crm.id,)]


async def test_requests_that_wait_for_a_slot_are_cut_too() -> None:
    """Targets behind a full worker never reach the wire after the cut, and end as delivery messages."""
    worker = Worker(concurrency=1)
    for name in ("a", "b", "c"):
        await worker.subscribe(name)
        worker.sender.on(f"https://{name}.example/", Reply(hang=True))
    ticket = worker.offer(event_message())
    await worker.sender.arrived(1)

    worker.router.cut()
    await worker.intake.idle()

    assert len(worker.sender.sent) == 1
    assert len(worker.waiting()) == 3
    assert ticket.settles == ["ack"]


async def test_during_the_drain_nothing_is_held(worker: Worker) -> None:
    """The rest of a wait goes to a rung instead: the messages in hand become fewer."""
    shop = await worker.subscribe("shop")
    gate = asyncio.Event()
    worker.publisher.hang()
    early = due(shop.id, not_before=START + 0.5, wait_s=1.0)
    ticket = worker.offer(delivery_message(early), Source.DUE)
    worker.intake.pause()
    worker.publisher.go_on()
    gate.set()

    await worker.intake.idle()

    assert [p.key for p in worker.publisher.confirmed] == [f"500.{DUE}"]
    assert ticket.settles == ["ack"]


@settings(max_examples=40)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=25),
    st.none() | st.integers(0, 30),
)
def test_slots_are_never_exceeded_nor_lost(
    capacity: int, jobs: list[tuple[int, int]], cut_after: int | None
) -> None:
    """S1-11: neither the worker's nor an endpoint's bound, with waiters and cuts; all are free at the end."""

    async def main() -> None:
        worker = Worker(concurrency=capacity, quick_wait_s=5.0)
        subscriptions = [
            await worker.subscribe(f"e{n}", concurrency=n + 1, events=[f"t{n}"]) for n in range(3)
        ]
        for number, (target, latency) in enumerate(jobs):
            worker.sender.latency_s[subscriptions[target].url] = latency / 10
            worker.offer(event_message(message_id=f"ord-{number}", routing_key=f"t{target}"))
        if cut_after is not None:
            await asyncio.sleep(cut_after / 10)
            worker.router.cut()
        await worker.intake.idle()

        assert worker.sender.peak_in_flight <= capacity
        for n, subscription in enumerate(subscriptions):
            assert worker.sender.peaks.get(subscription.url, 0) <= n + 1
            assert worker.endpoint(subscription).slots.in_flight == 0
        assert worker.intake.slots.free == capacity
        assert [ticket.settles for ticket in worker.tickets] == [["ack"]] * len(jobs)
        assert worker.bugs() == []

    run_virtually(main)


async def test_nobody_waits_behind_a_wait_for_an_endpoint() -> None:
    """A job that waits for its endpoint's slot holds no global slot and keeps no other from starting."""
    worker = Worker(concurrency=2)
    await worker.subscribe("busy", concurrency=1, events=["busy"])
    await worker.subscribe("idle", events=["idle"])
    worker.sender.on("https://busy.example/", Reply(hang=True))
    worker.offer(event_message(routing_key="busy", message_id="first"))
    await worker.sender.arrived(1)
    worker.offer(event_message(routing_key="busy", message_id="waits"))
    worker.offer(event_message(routing_key="idle", message_id="other"))

    await settled()

    assert worker.sent("idle") == 1
    assert worker.intake.slots.free == 1


async def test_a_breaker_that_opens_stops_those_in_line() -> None:
    """A request that waited for a slot when the breaker opened is deferred, not sent (fault 55)."""
    worker = Worker(quick_wait_s=10.0)
    await worker.subscribe("shop", concurrency=1, breaker={"failures": 2})
    worker.sender.on(SHOP, Reply(fault=OutcomeKind.REFUSED))
    worker.sender.latency_s[SHOP] = 0.01
    for n in range(20):
        worker.offer(event_message(message_id=f"ord-{n}"))
    await worker.intake.idle()

    assert worker.sent("shop") == 2
    assert [m.attempts_made for m in worker.waiting()].count(0) == 18
    assert min(m.not_before for m in worker.waiting() if not m.attempts_made) >= START + 30
    assert {p.publication.exchange for p in worker.publisher.confirmed} == {NAMES.wait}
    assert [ticket.settles for ticket in worker.tickets] == [["ack"]] * 20


async def test_a_retry_after_stops_those_in_line() -> None:
    """All of an endpoint's deliveries wait, those behind a slot too; nothing is sent earlier (fault 39)."""
    worker = Worker(quick_wait_s=10.0)
    await worker.subscribe("shop", concurrency=1)
    worker.sender.on(SHOP, Reply(status=429, retry_after="60"), Reply())
    worker.sender.latency_s[SHOP] = 0.01
    for n in range(10):
        worker.offer(event_message(message_id=f"ord-{n}"))
    await worker.intake.idle()

    assert worker.sent("shop") == 1
    assert min(m.not_before for m in worker.waiting()) >= START + 60
    assert sorted(m.attempts_made for m in worker.waiting()) == [0] * 9 + [1]


async def test_a_worker_of_five_has_five_requests_in_flight() -> None:
    """S1-11: with concurrency 5, five of ten jobs are sent at once; none is lost."""
    worker = Worker(concurrency=5, quick_wait_s=5.0)
    shop = await worker.subscribe("shop")
    worker.sender.latency_s[shop.url] = 1.0
    for number in range(10):
        worker.offer(event_message(message_id=f"ord-{number}"))
    await worker.intake.idle()

    assert worker.sender.peak_in_flight == 5
    assert worker.sent("shop") + len(worker.waiting()) == 10
