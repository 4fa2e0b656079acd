"""Tenants share the slots of a worker by their weights, and each pass of the loop starts few jobs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from consumer.core.fairness.queue import MAX_CONSECUTIVE
from consumer.core.fairness.scheduler import Scheduler
from consumer.flow.take.intake import MOST_IN_PASS, Intake
from consumer.flow.take.job import Job
from consumer.ports import Incoming, Source
from tests.support.fakes import FakeTicket, settled
from tests.support.flow.intake import IntakeDesk
from tests.support.worker import Worker, event_message


async def test_standings_are_over_all_shares_and_name_the_default_tenant() -> None:
    """S1-9: waiting jobs by tenant, fresh and due together; one without a header is the default one."""
    desk = IntakeDesk()
    desk.offer(tenant="first")
    for source in (Source.LANE, Source.LANE, Source.DUE):
        desk.offer(source, tenant="acme")
    nameless = event_message()
    desk.intake.offer(
        Source.LANE, Incoming(replace(nameless, headers={}), FakeTicket(desk.worker.journal, "nameless"))
    )

    standings = desk.intake.standings()

    assert {tenant: standing.waiting for tenant, standing in standings.items()} == {"acme": 3, "default": 1}
    await desk.run_all()
    assert desk.intake.standings() == {}


async def test_weights_hold_where_slots_are_short() -> None:
    """S1-16: 1:2:4 of the requests, through slots, caps and reserve."""
    weights = {"a": 1.0, "b": 2.0, "c": 4.0}
    worker = Worker(concurrency=64, weight_of=weights.__getitem__)
    worker.intake.set_borrow_limit(58)
    for tenant in weights:
        await worker.subscribe(tenant, tenant=tenant, concurrency=256)
        worker.sender.latency_s[f"https://{tenant}.example/"] = 0.05
    for number in range(2000):
        for tenant in weights:
            worker.offer(event_message(tenant=tenant, message_id=f"{tenant}-{number}"))

    await worker.clock.advance(1.7)
    await worker.intake.give_back()
    await worker.intake.idle()

    counts = [worker.sent(tenant) for tenant in weights]
    assert sum(counts) > 1500
    assert counts == pytest.approx([sum(counts) * share / 7 for share in (1, 2, 4)], rel=0.06)


async def test_a_fan_out_of_twenty_is_worth_twenty_events() -> None:
    """Cost is deliveries: both tenants make as many requests, for every fan-out of an event."""
    worker = Worker(concurrency=64)
    worker.intake.set_borrow_limit(58)
    names = [f"w{number}" for number in range(20)]
    await worker.subscribe_all(*names, tenant="wide", concurrency=256)
    await worker.subscribe("n", tenant="narrow", concurrency=256)
    for name in (*names, "n"):
        worker.sender.latency_s[f"https://{name}.example/"] = 0.05
    for number in range(250):
        worker.offer(event_message(tenant="wide", message_id=f"w-{number}"))
        for copy in range(10):
            worker.offer(event_message(tenant="narrow", message_id=f"n-{number}-{copy}"))

    await worker.clock.advance(0.4)
    ahead = sum(map(worker.sent, names)) - worker.sent("n")  # the cost of a job is known after the first ones
    await worker.clock.advance(1.7)
    await worker.intake.give_back()
    await worker.intake.idle()

    wide, narrow = sum(map(worker.sent, names)) - ahead, worker.sent("n")
    assert wide + narrow > 1500
    assert wide == pytest.approx(narrow, rel=0.15)


async def test_reserved_slots_stay_free_for_others() -> None:
    """One tenant may have six of ten; another's event starts at once, and an end lets the first go on."""
    desk = IntakeDesk(concurrency=10)
    desk.intake.set_borrow_limit(6)
    for _ in range(20):
        desk.offer(tenant="flood")
    await settled()
    assert desk.tenants() == ["flood"] * 6

    desk.offer(tenant="quiet")
    await settled()
    assert desk.tenants() == ["flood"] * 6 + ["quiet"]

    desk.intake.set_borrow_limit(8)
    await settled()
    assert desk.tenants().count("flood") == 8
    await desk.run_all()
    assert len(desk.started) == 21


async def test_a_refusal_is_not_asked_for_again() -> None:
    """The hot path: while nothing changes, a message of a tenant that may not start costs no search."""
    desk = IntakeDesk(concurrency=10)
    desk.intake.set_borrow_limit(6)
    asked = 0

    class Counting(Scheduler[Job]):
        """Counts how often it is asked."""

        def pop(self, *, scarce: bool = False) -> Job | None:
            """Count."""
            nonlocal asked
            asked += 1
            return super().pop(scarce=scarce)

    desk.intake._queued.__class__ = Counting
    for _ in range(100):
        desk.offer(tenant="flood")

    assert asked == 7
    await desk.run_all()


async def test_an_end_lets_the_same_tenant_go_on_while_others_hold_slots() -> None:
    """A refused tenant is asked again once enough of its own have ended."""
    worker, started = Worker(concurrency=10), list[str]()
    ends: dict[str, asyncio.Event] = {"flood": asyncio.Event(), "quiet": asyncio.Event()}

    async def work(job: Job) -> None:
        job.started(takes_slot=True)
        await intake.slots.acquire()
        started.append(job.tenant)
        try:
            if started.count("flood") <= 2 and job.tenant == "flood":
                await ends["flood"].wait()
            else:
                await ends["quiet"].wait()
        finally:
            intake.slots.release()

    intake = Intake(worker.context, work)
    intake.set_borrow_limit(6)
    for tenant in (*["flood"] * 20, "quiet", "quiet"):
        intake.offer(Source.LANE, Incoming(event_message(tenant=tenant), FakeTicket()))
    await settled()
    assert (started.count("flood"), started.count("quiet")) == (
        7,
        2,
    )  # beside the quiet one its part is seven

    ends["flood"].set()
    await settled()

    assert started.count("flood") == 8
    ends["quiet"].set()
    await intake.idle()
    assert len(started) == 22


async def test_tenants_that_share_the_loop_start_a_few_at_a_time() -> None:
    """Fault 71: an event that comes waits for one short pass, not for all that could start before it."""
    desk = IntakeDesk(concurrency=100)
    desk.intake.set_borrow_limit(90)
    for _ in range(50):
        desk.offer(tenant="noisy")
    assert desk.intake.running() == MOST_IN_PASS
    desk.offer(tenant="quiet")

    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "quiet" in desk.tenants()[: MOST_IN_PASS + MAX_CONSECUTIVE + 1]

    assert len(await desk.run_all()) == 51


async def test_many_that_wait_start_a_few_each() -> None:
    """Where twenty flood, each starts its few: together they fill the worker."""
    desk = IntakeDesk(concurrency=100)
    desk.intake.set_borrow_limit(90)
    for number in range(100):
        desk.offer(tenant=f"t{number % 5}")

    await asyncio.sleep(0)
    assert desk.intake.running() >= 5 * MOST_IN_PASS
    assert len(await desk.run_all()) == 100


async def test_a_tenant_alone_starts_all_at_once() -> None:
    """No job waits for the end of a pass."""
    desk = IntakeDesk(concurrency=100)
    desk.intake.set_borrow_limit(100)
    for _ in range(50):
        desk.offer()

    assert desk.intake.running() == 50
    await desk.run_all()
