"""A look-up of a repeated event takes a bounded time; without an answer the event is sent, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from consumer.core.errors import StoreUnavailable
from consumer.core.history.trace import EventKey
from consumer.edges.history.settled_lookup import LOOK_UP_S, SettledLookup
from consumer.flow.observe.observer import Observer
from metrics.series import Series
from tests.support.fakes import RecordingLog
from tests.support.system.waiting import shown, until
from tests.support.worker import event


class Reader:
    """Knows every event, unless a test makes it slow or away."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.fault: Exception | None = None
        self.asked: list[int] = []
        self.closed = False

    async def settled(self, keys: Sequence[EventKey], since: float, until: float) -> Collection[EventKey]:
        """Return all of *keys*."""
        self.asked.append(len(keys))
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return keys

    async def close(self) -> None:
        """Note it."""
        self.closed = True


class Desk:
    """A look-up with its reader, metrics and log."""

    def __init__(self) -> None:
        self.reader, self.log, self.series = Reader(), RecordingLog(), Series(CollectorRegistry())
        observe = Observer(self.series, self.log)
        self.lookup = SettledLookup(self.reader, 60.0, observe, lambda: 1_000.0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Desk]:
        """Answer meanwhile."""
        task = asyncio.create_task(self.lookup.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def knows(self, count: int = 1) -> list[bool]:
        """Ask for so many events at the same time."""
        return await asyncio.gather(*(self.lookup.knows(event(id=f"ord-{n}")) for n in range(count)))

    def missed(self) -> float:
        """Return how many look-ups were missed."""
        return self.series.registry.get_sample_value("leveret_history_lookups_missed_total") or 0.0


async def test_events_that_ask_at_the_same_time_share_a_query() -> None:
    """S1-15: one query each would limit the worker to the speed of the store."""
    async with Desk().running() as desk:
        assert await desk.knows(300) == [True] * 300
        assert desk.reader.asked == [0, 300]
        assert await desk.knows() == [True]
    assert desk.missed() == 0


async def test_a_store_without_an_answer_delays_an_event_for_a_moment() -> None:
    """S1-15: those that wait are sent, those that follow are not delayed, and each is counted."""
    loop = asyncio.get_running_loop()
    async with Desk().running() as desk:
        assert await desk.knows() == [True]
        desk.reader.gate.clear()
        began = loop.time()
        assert await desk.knows(5) == [False] * 5
        assert loop.time() - began < LOOK_UP_S + 2.0

        queries = len(desk.reader.asked)
        assert await desk.knows(5) == [False] * 5
        assert len(desk.reader.asked) == queries
    assert desk.missed() == 10
    assert len(desk.log.events("history.unreadable")) == 1


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (StoreUnavailable("history.db: the disk is full"), "history.unreadable"),
        (ValueError("history.db: a NUL"), "history.unreadable"),
        (RuntimeError("a bug"), "task.failed"),
    ],
)
async def test_a_store_that_is_away_is_used_again_once_it_is_back(fault: Exception, line: str) -> None:
    """Fault 68: no event waits for it meanwhile, and a bug stops nothing."""
    async with Desk().running() as desk:
        assert await desk.knows() == [True]
        desk.reader.fault = fault
        assert await desk.knows() == [False]
        assert await desk.knows() == [False]
        assert len(desk.log.events(line)) == 1

        desk.reader.fault = None
        await shown(desk.knows, lambda known: known)
    assert desk.missed() >= 2


async def test_at_the_end_nobody_waits_for_an_answer() -> None:
    """An event that waits is sent; the history is closed."""
    desk = Desk()
    async with desk.running():
        desk.reader.gate.clear()
        asking = asyncio.create_task(desk.knows())
        await until(lambda: desk.reader.asked)
    assert await asking == [False]
    assert await desk.knows() == [False]

    await desk.lookup.close()

    assert desk.reader.closed
