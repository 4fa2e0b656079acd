"""Race a worker that is observed against one that is not: two daemons that differ only in their settings.

Perhaps something happens beside the observed one's turns, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.broker import Broker
from bench.core.legs import Track
from bench.core.throughput import BLOCKS, FANOUT, SETTINGS, Shape
from bench.core.turns import Beside, Match, Side, nothing
from bench.nginx import Nginx
from bench.prove import Bench
from tests.support.processes.daemon import Daemon

SHAPES: Sequence[Shape] = (Shape("f1"), Shape("f20", fanout=FANOUT))
DELIVERIES = 60_000  #: of a side in a pair, on average of the two
LEAST_DELIVERIES = 2_000  #: however small the scale is
LOADED = 2  #: so many times the deliveries that count; the rest warms up, or is left over
LEAST_EVENTS = 10_000  #: far more than a worker has in hand


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The two sides of a race."""

    label: str
    on: Mapping[str, str]  #: settings of the observed worker
    off: Mapping[str, str]
    beside_on: Beside = nothing  #: happens every five seconds of the observed worker's turns


async def compare(bench: Bench, broker: Broker, nginx: Nginx, shape: Shape, pair: Pair) -> tuple[float, int]:
    """Race with one shape of events; return the median ratio, and the deliveries of a side in a pair."""
    wanted = bench.count(DELIVERIES, LEAST_DELIVERIES)

    def daemon(name: str, settings: Mapping[str, str]) -> Daemon:
        topology = {"LEVERET_TOPOLOGY__PREFIX": f"{pair.label}-{name}"}
        return Daemon(bench.folder, broker.url, SETTINGS | topology | dict(settings), f"{pair.label}-{name}")

    async with daemon("on", pair.on) as observed, daemon("off", pair.off) as plain:
        sides = (
            Side(
                name="on",
                track=Track(bench, broker, nginx, observed, f"{pair.label}-on"),
                beside=pair.beside_on,
            ),
            Side(name="off", track=Track(bench, broker, nginx, plain, f"{pair.label}-off")),
        )
        for side in sides:
            await side.track.daemon.subscribe(shape.subscriptions(nginx, side.name))
        match = Match(
            bench=bench,
            nginx=nginx,
            sides=sides,
            events=shape.events(max(LOADED * wanted, LEAST_EVENTS * shape.fanout)),
            wanted=wanted,
        )
        await match.lay_out()
        ratio = await match.race(f"{pair.label}_{shape.label}", bench.count(BLOCKS))
    return ratio, wanted


async def worst(bench: Bench, broker: Broker, nginx: Nginx, pair: Pair) -> tuple[float, int]:
    """Race with fan-out 1 and 20; return the worse ratio and the deliveries of a side in a pair."""
    found = [await compare(bench, broker, nginx, shape, pair) for shape in SHAPES]
    return min(ratio for ratio, _ in found), min(wanted for _, wanted in found)
