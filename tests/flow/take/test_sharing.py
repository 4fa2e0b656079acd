"""The limit for borrowing follows the present tenants and the lag of the loop; evenness is reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from consumer.flow.take.sharing import Sharing
from consumer.ports import Incoming, Source
from tests.support.fakes import FakeTicket, ManualClock
from tests.support.worker import Worker, event_message

URL = "https://shop.example/"


@asynccontextmanager
async def sharing(worker: Worker, *, by_tenant: bool = True) -> AsyncIterator[Sharing]:
    """Run the routine of a worker; its unstarted jobs are given back."""
    one = Sharing(worker.context, worker.intake, by_tenant=by_tenant)
    task = asyncio.create_task(one.run())
    try:
        yield one
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await worker.intake.give_back()
        await worker.intake.idle()
    assert worker.bugs() == []


async def flooded(concurrency: int = 40) -> Worker:
    """A worker whose tenant acme has endless work, one second for each job."""
    worker = Worker(concurrency=concurrency, quick_latency_s=1e6)
    for tenant in ("acme", "quiet"):
        await worker.subscribe("shop" if tenant == "acme" else tenant, tenant=tenant, concurrency=500)
    worker.sender.latency_s[URL] = 1.0
    return worker


def flood(worker: Worker, count: int = 400) -> None:
    """Put events of acme into the window."""
    for number in range(count):
        worker.offer(event_message(message_id=f"a-{number}"))


async def test_a_single_tenant_uses_every_slot() -> None:
    """It may have every slot that no other tenant wants."""
    worker = await flooded()
    async with sharing(worker):
        flood(worker)
        await worker.clock.advance(3.5)

        assert worker.sender.peaks[URL] == 40
        assert worker.count("borrowable_deliveries") == 40


async def test_beside_another_that_comes_and_goes_a_tenth_stays_free() -> None:
    """Fault 71: the quiet one's event starts at once, and for a minute slots are kept for the next."""
    worker = await flooded()
    async with sharing(worker):
        worker.offer(event_message(tenant="quiet", message_id="q-0"))
        flood(worker)
        await worker.clock.advance(2.5)
        worker.sender.peaks.clear()
        await worker.clock.advance(2)
        assert worker.sender.peaks[URL] == 36
        sent = worker.sent("quiet")

        worker.offer(event_message(tenant="quiet", message_id="q-1"))
        await worker.clock.advance(0.0)

        assert worker.sent("quiet") == sent + 1


class Drifting(ManualClock):
    """Time that passes faster than the timers fire: the loop wakes late."""

    def __init__(self) -> None:
        super().__init__()
        self.late_s = 0.0
        self._skew_s = 0.0

    def monotonic(self) -> float:
        """Return a later time at each call."""
        self._skew_s += self.late_s
        return super().monotonic() + self._skew_s


async def test_a_late_loop_takes_borrowed_slots_back() -> None:
    """A worker whose loop lags limits the flooding tenant to a quarter, and raises the limit again later."""
    worker, clock = await flooded(), Drifting()
    worker.context = replace(worker.context, clock=clock)
    async with sharing(worker):
        worker.offer(event_message(tenant="quiet", message_id="q-0"))
        flood(worker, 2_000)
        await worker.clock.advance(3)
        clock.late_s = 0.02
        await worker.clock.advance(3)
        worker.sender.peaks.clear()
        await worker.clock.advance(3)
        assert worker.count("borrowable_deliveries") == 10
        assert worker.sender.peaks[URL] <= 10

        clock.late_s = 0.0
        await worker.clock.advance(4)

        assert worker.count("borrowable_deliveries") == 36


async def test_evenness_is_reported_each_minute() -> None:
    """S1-9: two tenants with endless work: Jain's index over both."""
    worker = await flooded(8)
    worker.sender.latency_s["https://quiet.example/"] = 1.0
    async with sharing(worker):
        for number in range(1_000):
            worker.offer(event_message(message_id=f"a-{number}"))
            worker.offer(event_message(tenant="quiet", message_id=f"q-{number}"))
        await worker.clock.advance(62)

        assert worker.count("fairness_tenants") == 2
        assert worker.count("fairness_index") == pytest.approx(1.0, abs=0.01)


async def test_waits_in_hand_are_counted_by_share() -> None:
    """S1-10: a job that started at once, and some that waited their turn."""
    worker = await flooded(2)
    async with sharing(worker):
        flood(worker, 6)
        await worker.clock.advance(4)

        assert worker.count("queue_wait_seconds_count", share="fresh") == 6
        assert worker.count("queue_wait_seconds_bucket", share="fresh", le="0.05") == 2
        assert worker.count("queue_wait_seconds_sum", share="fresh") == pytest.approx(6, abs=0.4)


@pytest.mark.parametrize(("by_tenant", "named", "said"), [(True, 49, 1), (True, 51, 0), (False, 0, 0)])
async def test_most_events_without_a_tenant_are_reported(by_tenant: bool, named: int, said: int) -> None:
    """Over half of them, once; not where lanes are chosen by the message's id."""
    worker = await flooded()
    worker.sender.latency_s.clear()
    async with sharing(worker, by_tenant=by_tenant):
        for number in range(1_000):
            message = event_message(message_id=f"e-{number}")
            if number % 100 >= named:
                message = replace(message, headers={})
            worker.intake.offer(Source.LANE, Incoming(message, FakeTicket()))
        await worker.clock.advance(130)

        lines = worker.log.events("events.nameless")
        assert len(lines) == said
        if said:
            assert lines[0]["ratio"] == pytest.approx(1 - named / 100)


async def test_an_event_of_an_inbox_is_not_nameless() -> None:
    """A source's message names its tenant elsewhere, and comes again by a lane with it."""
    worker = await flooded()
    worker.sender.latency_s.clear()
    async with sharing(worker):
        for number in range(1_000):
            message = event_message(message_id=f"e-{number}")
            worker.intake.offer(Source.INBOX, Incoming(replace(message, headers={}), FakeTicket()))
            if number % 10:  # the last ones are still on their way
                worker.intake.offer(Source.LANE, Incoming(message, FakeTicket()))
        await worker.clock.advance(65)

        assert worker.log.events("events.nameless") == []
