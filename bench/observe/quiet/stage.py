"""The stage of ordinary life: broker, workers, customers' endpoints, applications that publish, Prometheus.

Every time in this package is in seconds of a whole life of 30 minutes. :meth:`Stage.wait` shortens it by the
scale of the proof, by which the windows of the alert rules are shortened too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from bench.broker import Broker
from bench.observe.quiet.endpoints import Endpoints
from bench.observe.quiet.watch import Tower
from bench.observe.quiet.workers import Workers
from bench.prove import Bench
from tests.support.broker.load import EventSpec, publish
from tests.support.processes.daemon import retry, subscription

NIGHT_PER_S = 0.15  #: events of all applications together
DAY_PER_S = 8.0
MOST_PER_S = 40.0  #: in a shortened life, in which each second counts for many
QUIET_EVERY_S = 60.0  #: an event of the quiet tenant
TENANTS = 5
QUIET = "t05"
COMMAND_S = 180.0

ENDPOINTS: Mapping[str, str] = {
    "shop": "t00",
    "sometimes": "t00",
    "bi": "t01",
    "flapping": "t01",
    "crm": "t02",
    "refusing": "t02",
    "audit": "t03",
    "dead": "t03",
    "mail": "t04",
    "paused": "t04",
    "rare": QUIET,
}
"""The tenant of each endpoint. ``dead`` is well until life is over."""

NEW = "new"  #: endpoint without a subscription at first

SOMETIMES_RATIO = 0.04
SLOWER_S = 0.3

SETTINGS: Mapping[str, str] = {"LEVERET_TOPOLOGY__LANES": "4", "LEVERET_TOPOLOGY__DUE_QUEUES": "2"}


class Publisher:
    """The applications of all tenants: they publish by a rate, and later whatever the broker did not take."""

    def __init__(self, url: str, scale: float) -> None:
        self._url = url
        self._scale = scale
        self._number = count()
        self.per_s = NIGHT_PER_S
        self.published = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Publish while the block runs."""
        tasks = [asyncio.create_task(self._usual()), asyncio.create_task(self._quiet())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def send(self, tenant: str, many: int = 1, kind: str = "order.created") -> None:
        """Publish some events of one tenant; return when the broker has them."""
        await self._publish([self._event(tenant, kind) for _ in range(many)])

    async def _usual(self) -> None:
        owed, last = 0.0, time.monotonic()
        while True:
            await asyncio.sleep(0.5)
            now = time.monotonic()
            owed, last = owed + (now - last) * min(self.per_s / self._scale, MOST_PER_S), now
            events = [self._of_day(number) for number, _ in zip(self._number, range(int(owed)), strict=False)]
            owed -= len(events)
            await self._publish(events)

    async def _quiet(self) -> None:
        while True:
            await asyncio.sleep(QUIET_EVERY_S * self._scale)
            await self.send(QUIET)

    async def _publish(self, events: Sequence[EventSpec]) -> None:
        await publish(self._url, events)
        self.published += len(events)

    def _of_day(self, number: int) -> EventSpec:
        """Return one event of the day; nobody wants every fifth of them."""
        kind = "page.viewed" if number // TENANTS % 5 == 4 else "order.created"
        return self._event(f"t{number % TENANTS:02d}", kind)

    def _event(self, tenant: str, kind: str) -> EventSpec:
        return EventSpec(id=f"life_{next(self._number)}", tenant=tenant, type=kind, body=b'{"total":12}')


@dataclass(slots=True)
class Stage:
    """Everything that a moment may touch."""

    bench: Bench
    broker: Broker
    endpoints: Endpoints
    tower: Tower
    workers: Workers
    publisher: Publisher
    facts: dict[str, Any] = field(default_factory=dict)  #: effects of the moments, for the notes

    async def wait(self, seconds: float) -> None:
        """Wait, shortened by the scale."""
        await asyncio.sleep(seconds * self.bench.scale)

    async def command(self, *arguments: str) -> str:
        """Run one ``leveret`` command, as an operator: again while a restart refuses it; return its stdout.

        Raises:
            RuntimeError: it still fails after :data:`COMMAND_S`.
        """
        deadline = time.monotonic() + COMMAND_S
        while True:
            try:
                return await self.workers.one.cli(*arguments)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(2.0)

    async def begin(self) -> None:
        """Make the subscriptions, and start the workers."""
        self.endpoints["sometimes"].failing_ratio = SOMETIMES_RATIO
        self.endpoints["audit"].delay_s = SLOWER_S
        rows = [
            subscription(
                name, self.endpoints.url(name), tenant=tenant, events=["order.*"], retry=retry(max_attempts=8)
            )
            for name, tenant in ENDPOINTS.items()
        ]
        await self.workers.one.subscribe(rows)
        await self.workers.start()
        await self.tower.until(f'sum(leveret_ready{{job="leveret"}}) == {len(self.workers.running)}')
