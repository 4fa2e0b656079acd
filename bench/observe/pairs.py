"""Race a worker that is observed against one that is not: two daemons with one home, lanes and nginx.

Only the settings differ, and perhaps what happens beside the legs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from bench.broker import Broker
from bench.core.legs import Track, race
from bench.core.throughput import BLOCKS, DELIVERIES, FANOUT, SETTINGS, Shape
from bench.nginx import Nginx
from bench.prove import Bench
from tests.support.processes.daemon import Daemon

SHAPES: Sequence[Shape] = (Shape("f1"), Shape("f20", fanout=FANOUT))

Beside = Callable[[Daemon], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def nothing(_daemon: Daemon) -> AsyncIterator[None]:
    """Let nothing happen beside a leg."""
    yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The two sides of a race."""

    label: str
    on: Mapping[str, str]  #: settings of the observed worker
    off: Mapping[str, str]
    deliveries: int = DELIVERIES  #: of a leg
    beside_on: Beside = field(default=nothing)  #: happens beside each leg of the observed worker


async def compare(bench: Bench, broker: Broker, nginx: Nginx, shape: Shape, pair: Pair) -> tuple[float, int]:
    """Race with one shape of events; return the median of the pair ratios, and the deliveries of a leg."""
    events = shape.events(bench.count(pair.deliveries, 40 * shape.fanout))
    requests = len(events) * shape.fanout
    async with (
        Daemon(bench.folder, broker.url, SETTINGS | dict(pair.on)) as observed,
        Daemon(bench.folder, broker.url, SETTINGS | dict(pair.off)) as plain,
    ):
        ours, theirs = Track(bench, broker, nginx, observed), Track(bench, broker, nginx, plain)
        await plain.subscribe(shape.subscriptions(nginx))
        await theirs.lay_out()

        async def leg_on() -> float:
            async with pair.beside_on(observed):
                return await ours.run_daemon(events, requests)

        async def leg_off() -> float:
            return await theirs.run_daemon(events, requests)

        name = f"{pair.label}_{shape.label}"
        ratio = await race(bench, name, leg_on, leg_off, bench.count(BLOCKS))
    return ratio, requests


async def worst(bench: Bench, broker: Broker, nginx: Nginx, pair: Pair) -> tuple[float, int]:
    """Race with fan-out 1 and 20; return the worse ratio and the fewest deliveries of a leg."""
    found = [await compare(bench, broker, nginx, shape, pair) for shape in SHAPES]
    return min(ratio for ratio, _ in found), min(requests for _, requests in found)
