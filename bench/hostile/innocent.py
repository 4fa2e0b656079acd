"""The innocent second tenant: it publishes steadily, and each of its events is accounted for.

Data flow: a child process publishes on time, confirmed -> the daemon under attack -> the sink's log ->
Account: how long each event took, which never came, which came twice, which were parked.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from bench.fairness.field import Trickle, events_of, quantile
from bench.sink import Sink
from tests.support.broker.load import EventSpec
from tests.support.processes.daemon import Daemon, subscription

TENANT = "innocent"
EVERY_S = 0.02  #: 50 events a second
ARRIVE_S = 60.0  #: an event that is later than this after the end of its leg is lost


@dataclass(frozen=True, slots=True)
class Leg:
    """The latencies and faults of the innocent tenant in one leg."""

    name: str
    published: int
    missing: int  #: had not come when the leg was given up
    waits_s: Sequence[float]  #: publish to receipt, of those that came

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of all that was published; infinite where 1 % never came."""
        waits = [*self.waits_s, *(float("inf") for _ in range(self.missing))]
        return round(quantile(waits, 0.99) * 1000, 1)


@dataclass(frozen=True, slots=True)
class Account:
    """The end of every event of the innocent tenant, over all legs."""

    published: int
    lost: int  #: never requested
    doubled: int  #: requests beyond the first, over all events
    parked: int  #: entries in the parked queue


@dataclass(slots=True)
class Innocent:
    """Publishes for :data:`TENANT` and looks into the sink."""

    url: str  #: of the broker
    sink: Sink
    path: str = TENANT  #: its target's name in the sink
    published: dict[str, float] = field(default_factory=dict)  #: Unix seconds by event id, over all legs
    legs: list[Leg] = field(default_factory=list)

    def entry(self) -> dict[str, object]:
        """Return its entry of a subscriptions file."""
        return subscription(self.path, self.sink.url(self.path), tenant=TENANT)

    async def leg(self, name: str, seconds: float) -> Leg:
        """Publish for *seconds*; return once all has come, or is given up.

        Args:
            name: Begins the ids of the leg's events; each leg has its own.
            seconds: How long it publishes, an event every :data:`EVERY_S`.
        """
        events = events_of(TENANT, max(1, round(seconds / EVERY_S)), name, size=500)
        with ProcessPoolExecutor(
            1, get_context("spawn")
        ) as pool:  # our own work must not delay its publishes
            loop = asyncio.get_running_loop()
            published = await loop.run_in_executor(pool, publish_steadily, self.url, events)
        self.published |= published
        came = await self._arrivals(published)
        waits = [came[name] - at for name, at in published.items() if name in came]
        self.legs.append(leg := Leg(name, len(published), len(published) - len(waits), waits))
        return leg

    async def account(self, daemon: Daemon) -> Account:
        """Return the end of every published event; *daemon* is any that runs on this broker."""
        requests = Counter(seen.id for seen in self.sink.read() if seen.path == self.path)
        parked = await daemon.listing("parked", "list", "--tenant", TENANT)
        return Account(
            published=len(self.published),
            lost=sum(requests[name] == 0 for name in self.published),
            doubled=sum(max(0, requests[name] - 1) for name in self.published),
            parked=len(parked),
        )

    async def _arrivals(self, published: dict[str, float]) -> dict[str, float]:
        """Return when each event was first requested, once all were, or after :data:`ARRIVE_S`."""
        deadline = time.monotonic() + ARRIVE_S
        while True:
            came: dict[str, float] = {}
            for seen in self.sink.read():
                if seen.path == self.path and seen.id in published:
                    came[seen.id] = min(seen.began, came.get(seen.id, seen.began))
            if len(came) == len(published) or time.monotonic() > deadline:
                return came
            await asyncio.sleep(0.2)


def publish_steadily(url: str, events: Sequence[EventSpec]) -> dict[str, float]:
    """Publish *events* on time, confirmed; return the Unix seconds of each publish. Of a process."""
    trickle = Trickle(url, events, EVERY_S)
    asyncio.run(trickle.run())
    return trickle.published
