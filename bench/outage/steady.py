"""Publish at a steady rate and known times; measure the lateness of deliveries, and their number a second."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from bench.sink import Seen, Sink
from tests.support.broker.load import EventSpec, connect, publish_one

TICK_S = 0.05
LATEST_S = 30.0  #: a delivery that comes so long after the last publish does not count
NEVER_MS = 1e9  #: the latency of a delivery that did not come


async def publish_steadily(url: str, events: Sequence[EventSpec], per_s: float) -> dict[str, float]:
    """Publish *events* evenly, all confirmed; return when each was handed over, Unix seconds by id."""
    connection = await connect(url)
    channel = await connection.channel(publisher_confirms=True)
    handed: dict[str, float] = {}
    began, under_way = time.monotonic(), set[asyncio.Task[None]]()
    for index, event in enumerate(events):
        ahead_s = began + index / per_s - time.monotonic()
        if ahead_s > TICK_S:
            await asyncio.sleep(ahead_s)
        handed[event.id] = time.time()
        task = asyncio.create_task(publish_one(channel, event))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    await connection.close()
    return handed


async def all_latencies_ms(
    sink: Sink, handed: Mapping[str, float], paths: Sequence[str], wanted: int
) -> list[float]:
    """Return :func:`latencies_ms` once there are *wanted*, or after :data:`LATEST_S` as they are."""
    until = time.monotonic() + LATEST_S
    while True:
        found = latencies_ms(sink.read(), handed, paths)
        if len(found) >= wanted or time.monotonic() > until:
            return found
        await asyncio.sleep(0.5)


def latencies_ms(seen: Sequence[Seen], handed: Mapping[str, float], paths: Sequence[str]) -> list[float]:
    """Return from hand-over to each first request at *paths*, milliseconds, ascending."""
    first: dict[tuple[str, str], float] = {}
    for one in seen:
        if one.path in paths and one.id in handed:
            key = (one.path, one.id)
            first[key] = min(one.began, first.get(key, one.began))
    return sorted(1000 * (at - handed[webhook_id]) for (_, webhook_id), at in first.items())


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of ascending values; :data:`NEVER_MS` for none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else NEVER_MS


def peak_per_s(moments: Sequence[float]) -> int:
    """Return the largest number of times within any one second."""
    ordered = sorted(moments)
    return max((bisect_left(ordered, at + 1.0) - index for index, at in enumerate(ordered)), default=0)


async def until_taken(sink: Sink, wanted: int, timeout_s: float) -> bool:
    """Wait until *wanted* ids were taken with a 200; return whether they were."""
    until = time.monotonic() + timeout_s
    while len({one.id for one in sink.read() if one.status == 200}) < wanted:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(1)
    return True
