"""Several workers between fakes that publish to the same rungs, of which some may stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle

from consumer.flow.base.checked_publisher import CheckedPublisher
from consumer.flow.returns import Returns
from consumer.ports import Incoming, Source
from tests.support.fakes import FakeTicket, Published, settled
from tests.support.fakes_routes import FakeRoutes
from tests.support.worker import DUE, NAMES, Worker
from tests.support.worker import due as owed


class Watcher:
    """One worker that watches what comes back.

    Attributes:
        sees: Whether messages can come back to it now.
        settles: Tickets of the messages that it got, in order.
        work: Check texts of the deliveries that it got.
    """

    def __init__(self, name: str) -> None:
        self.worker = Worker()
        self.checked = CheckedPublisher(self.worker.publisher, NAMES.wait, name)
        self.routes = FakeRoutes()
        self.returns = Returns(self.worker.context, self.checked, self.routes)
        self.sees = True
        self.settles: list[FakeTicket] = []
        self.work: list[object] = []

    async def put(self, wait_s: float) -> None:
        """Let one delivery wait."""
        now = self.worker.clock.now()
        message = owed("sub_1", not_before=now + wait_s, wait_s=wait_s)
        await self.checked.publish(self.worker.outbox.waiting(message, now))

    def take(self, published: Published) -> None:
        """Get a message from the due queue."""
        ticket = FakeTicket()
        self.settles.append(ticket)
        if not self.returns.offer(Source.DUE, Incoming(published.raw(queue=DUE), ticket)):
            self.work.append(published.headers.get("leveret-check"))

    def overdue(self, queue: str) -> float:
        """Return the value of its gauge for *queue*."""
        return self.worker.count("queue_overdue_messages", queue=queue)

    def late(self) -> dict[str, float]:
        """Return the seconds of each queue that is late."""
        [family] = self.worker.series.late.collect()
        return {sample.labels["queue"]: sample.value for sample in family.samples}


class Watchers:
    """Workers on one broker, whose due queue gives its messages to one after the other.

    Attributes:
        stuck: Rungs that give nothing back now, by TTL in milliseconds.
        lost: Returns True if the report from worker i to worker j is lost.
    """

    def __init__(self, count: int) -> None:
        self.workers = [Watcher(f"w{index}") for index in range(count)]
        self.stuck: set[str] = set()
        self.lost: Callable[[int, int], bool] = lambda _from, _to: False
        self._kept: dict[str, list[Published]] = {}
        self._takers = cycle(self.workers)
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Start all workers."""
        for index, each in enumerate(self.workers):
            each.worker.publisher.on_confirmed = partial(self._taken, index)
            each.returns.listening()
            self._tasks.append(asyncio.create_task(each.returns.run(partial(_sees, each))))
        await settled()

    async def end(self) -> list[bool]:
        """End all workers; return for each whether it ran until now."""
        ran = [task.cancel() for task in self._tasks]
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return ran

    def free(self, rung_ms: str) -> None:
        """Let a rung give back what it kept."""
        self.stuck.discard(rung_ms)
        for published in self._kept.pop(rung_ms, []):
            next(self._takers).take(published)

    def purge(self, rung_ms: str) -> None:
        """Lose what a stuck rung kept."""
        self._kept.pop(rung_ms, None)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        await self.workers[0].worker.clock.advance(seconds)

    def _taken(self, index: int, published: Published) -> None:
        exchange, rung_ms = published.publication.exchange, published.key.partition(".")[0]
        loop = asyncio.get_running_loop()
        if exchange == NAMES.control:
            for other, each in enumerate(self.workers):
                if other != index and not self.lost(index, other):
                    assert each.returns.heard(published.publication.body)
        elif exchange in (NAMES.wait, NAMES.due):
            loop.call_later(int(rung_ms) / 1000, self._surface, rung_ms, published)

    def _surface(self, rung_ms: str, published: Published) -> None:
        if rung_ms in self.stuck:
            self._kept.setdefault(rung_ms, []).append(published)
        else:
            next(self._takers).take(published)


def _sees(watcher: Watcher) -> bool:
    return watcher.sees


@asynccontextmanager
async def watchers(count: int) -> AsyncIterator[Watchers]:
    """Workers that run until the end of the block."""
    crew = Watchers(count)
    await crew.begin()
    try:
        yield crew
    finally:
        await crew.end()


RUNG = NAMES.rung(2.0)
