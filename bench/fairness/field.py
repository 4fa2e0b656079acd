"""Helpers of the proofs of fairness: the lane of a tenant, a quiet tenant that publishes, its waits."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from bench.broker import Broker
from bench.sink import Sink
from tests.support.broker.load import (
    EventSpec,
    connect,
    make_events,
    publish,
    publish_one,
    purge,
    ready_counts,
)

LANES = 16
ARRIVE_S = 90.0  #: after the end of a leg the last events of the quiet tenant have to come within this


def events_of(tenant: str, count: int, prefix: str, size: int = 1000) -> list[EventSpec]:
    """Return *count* events of one tenant."""
    made = make_events(f"{prefix}_{tenant}", count, size=size)
    return [EventSpec(id=e.id, tenant=tenant, type=e.type, body=e.body) for e in made]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that *share* of *values* do not exceed; infinite without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")


async def lanes_of(broker: Broker, tenants: Sequence[str]) -> dict[str, str]:
    """Return the lane of each tenant, found by one event of each without a consumer; empties the lanes."""
    lanes = [f"leveret.lane.{index:02d}" for index in range(LANES)]
    await purge(broker.url, lanes)
    before, found = await ready_counts(broker.url, lanes), {}
    for tenant in tenants:
        await publish(broker.url, events_of(tenant, 1, "lane"))
        counts = await ready_counts(broker.url, lanes)
        [found[tenant]] = [lane for lane in lanes if counts[lane] > before[lane]]
        before = counts
    await purge(broker.url, lanes)
    return found


async def no_routes(broker: Broker, timeout_s: float) -> None:
    """Return once no tenant is bound around the lanes.

    Raises:
        TimeoutError: bindings are left.
    """
    deadline = time.monotonic() + timeout_s
    while await _routes(broker):
        if time.monotonic() > deadline:
            raise TimeoutError(f"bindings on leveret.route are left after {timeout_s} s")
        await asyncio.sleep(0.5)


async def _routes(broker: Broker) -> int:
    vhost = urllib.parse.quote("/", safe="")
    path = f"/api/exchanges/{vhost}/leveret.route/bindings/source"
    rows = await asyncio.to_thread(broker.management.get, path)
    assert isinstance(rows, list)
    return len(rows)


@dataclass(frozen=True, slots=True)
class Wait:
    """One event of the quiet tenant."""

    at: float  #: seconds from the start of the leg to its publish
    took_s: float  #: publish to receipt


@dataclass(slots=True)
class Trickle:
    """A quiet tenant that publishes an event every *every_s* seconds until it is stopped."""

    url: str
    events: Sequence[EventSpec]
    every_s: float
    published: dict[str, float] = field(default_factory=dict)  #: Unix seconds by event id
    began: float = 0.0
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Publish on time, confirmed, even if the confirms take long."""
        connection = await connect(self.url)
        channel = await connection.channel(publisher_confirms=True)
        loop, confirms = asyncio.get_running_loop(), []
        start, self.began = loop.time(), time.time()
        for number, event in enumerate(self.events):
            wait_s = start + number * self.every_s - loop.time()
            if wait_s > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), wait_s)
            if self._stop.is_set():
                break
            self.published[event.id] = time.time()
            confirms.append(asyncio.ensure_future(publish_one(channel, event)))
        await asyncio.gather(*confirms)
        await connection.close()

    def stop(self) -> None:
        """Publish no more."""
        self._stop.set()

    async def waits(self, sink: Sink, path: str) -> list[Wait]:
        """Return the wait of every published event, once all have come.

        Raises:
            TimeoutError: some did not come.
        """
        async with asyncio.timeout(ARRIVE_S):
            while True:
                came = {s.id: s.began for s in sink.read() if s.path == path and s.attempt == 1}
                if came.keys() >= self.published.keys():
                    break
                await asyncio.sleep(0.2)
        return [Wait(at - self.began, came[name] - at) for name, at in self.published.items()]
