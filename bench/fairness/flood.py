"""A flood of one tenant: 100,000 events wait before the worker starts. A quiet one publishes 5 a second.

It goes on for some seconds after the flood, and its waits count then too. Its waits beside a flood that is
rerouted and goes on are a figure of their own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from bench.broker import Broker
from bench.core.legs import LEG_S, Track, race
from bench.fairness.field import Trickle, Wait, events_of, lanes_of, no_routes, quantile
from bench.nginx import Nginx
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import EventSpec, publish
from tests.support.processes.daemon import Daemon, subscription

FLOOD = 100_000
EVERY_S = 0.2
AFTER_S = 20.0  #: the quiet tenant goes on for so long after a flood
#: multiples of a flood: the backlog of a lasting one, and the events published meanwhile
WAITING, MORE = 0.4, 0.9
COUNTED_FROM_S = 10.0  #: earlier events of the quiet tenant do not count
SETTLED_S = 1.0
RETURN_S = 60.0  #: the bindings have to be gone by then
CANDIDATES = [f"q{number:03d}" for number in range(160)]
SETTINGS = {"LEVERET_SENDING__CONCURRENCY": "256"}
WITHOUT = SETTINGS | {"LEVERET_FAIRNESS__NOISY_AFTER_S": "3600"}

GOALS = (
    Goal(name="flood_other_lane_p95_ms", text="≤ 250", unit="ms", n=20),
    Goal(name="flood_same_lane_settled_s", text="≤ 30", unit="s", n=20),
    Goal(name="flood_same_lane_p95_ms", text="≤ 500", unit="ms", n=20),
    Goal(name="flood_same_lane_worst_s", text="≤ 60", unit="s", n=20),
    Goal(name="flood_goes_on_settled_s", text="≤ 30", unit="s", n=20),
    Goal(name="flood_goes_on_p95_ms", text="≤ 500", unit="ms", n=20),
    Goal(name="flood_cost_ratio", text="≥ 0.9", unit="ratio", n=FLOOD),
)


@dataclass(frozen=True, slots=True)
class Inflow:
    """The results of a flood."""

    waiting: Sequence[EventSpec]  #: in the lane before the worker starts
    more: Sequence[EventSpec] = ()  #: published, as fast as that goes, from its start on


@dataclass(slots=True)
class Floods:
    """Runs floods, and keeps the waits of the quiet tenant."""

    bench: Bench
    sink: Sink
    flood: Sequence[EventSpec]
    number: int = 0

    async def leg(self, track: Track, quiet: str) -> tuple[float, list[Wait]]:
        """Drain one flood; return its requests a second and the waits of the quiet tenant."""
        rate, waits, _ = await self._drain(track, quiet, Inflow(self.flood), AFTER_S)
        return rate, waits

    async def going_on(self, track: Track, quiet: str) -> list[Wait]:
        """Drain a flood that goes on; return the waits until its last event was delivered."""
        waiting, more = int(WAITING * len(self.flood)), int(MORE * len(self.flood))
        inflow = Inflow(self.flood[:waiting], events_of("flood", more, "more"))
        _, waits, lasted_s = await self._drain(track, quiet, inflow, 0.0)
        self.bench.note("flood_goes_on_s", [round(settled_at(waits), 1), round(lasted_s, 1)])
        return waits

    @staticmethod
    def spilled(daemon: Daemon) -> int:
        """Return how many times a daemon led a tenant around, over all its starts."""
        return len(list(daemon.lines("tenant.spilled")))

    async def _drain(
        self, track: Track, quiet: str, inflow: Inflow, after_s: float
    ) -> tuple[float, list[Wait], float]:
        self.number += 1
        await track.load(inflow.waiting)
        mark = track.nginx.mark()
        await track.daemon.start()
        own = events_of(quiet, int(LEG_S / EVERY_S), f"leg{self.number}", size=200)
        trickle = Trickle(track.broker.url, own, EVERY_S)
        running = asyncio.ensure_future(trickle.run())
        publishing = asyncio.ensure_future(publish_aside(track.broker.url, inflow.more))
        rate = await track.nginx.wait_for(mark, len(inflow.waiting) + len(inflow.more), LEG_S)
        await publishing
        lasted_s = time.time() - trickle.began
        await asyncio.sleep(after_s)
        trickle.stop()
        await running
        waits = await trickle.waits(self.sink, "quiet")
        await no_routes(track.broker, RETURN_S)
        self.bench.say(
            f"leg {self.number}: {rate:.0f} per s, {len(waits)} quiet events, settled after "
            f"{settled_at(waits):.1f} s, flood over after {lasted_s:.1f} s, "
            f"{self.spilled(track.daemon)} times re-routed so far"
        )
        await track.halt()
        return rate, waits, lasted_s


async def publish_aside(url: str, events: Sequence[EventSpec]) -> None:
    """Publish *events* from a process of its own; none are no reason for one."""
    if events:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            await asyncio.get_running_loop().run_in_executor(pool, publish_now, url, events)


def publish_now(url: str, events: Sequence[EventSpec]) -> None:
    """Publish *events*; of a process."""
    asyncio.run(publish(url, events))


async def prove(bench: Bench) -> Sequence[Measured]:
    """One flood beside a quiet tenant in another lane; five in its own lane, two without re-routing."""
    flood = events_of("flood", bench.count(FLOOD, 500), "flood")
    async with (
        Broker(bench) as broker,
        Nginx(bench.folder) as nginx,
        Sink(bench.folder, {"quiet": "/ok/quiet"}) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
        Daemon(
            bench.folder, broker.url, WITHOUT | {"LEVERET_HOME": str(daemon.home)}, name="without"
        ) as plain,
    ):
        track, without = Track(bench, broker, nginx, daemon), Track(bench, broker, nginx, plain)
        await daemon.subscribe([subscription("any", nginx.url("any"))])
        await track.lay_out()
        lanes = await lanes_of(broker, ["flood", *CANDIDATES])
        same = next(t for t in CANDIDATES if lanes[t] == lanes["flood"])
        other = next(t for t in CANDIDATES if lanes[t] != lanes["flood"])
        subscriptions = [
            subscription("flood", nginx.url("flood"), concurrency=256) | {"tenant": "flood"},
            *(subscription(t, sink.url("quiet")) | {"tenant": t} for t in (same, other)),
        ]
        for one in (daemon, plain):
            await one.subscribe(subscriptions)
        floods = Floods(bench, sink, flood)
        _, beside = await floods.leg(track, other)
        beneath = await floods.going_on(track, same)
        mine: list[list[Wait]] = []
        led: list[bool] = []  #: whether each of our legs was led around

        async def ours() -> float:
            before = floods.spilled(daemon)
            rate, waits = await floods.leg(track, same)
            mine.append(waits)
            led.append(floods.spilled(daemon) > before)
            return rate

        async def theirs() -> float:
            return (await floods.leg(without, same))[0]

        ratio = await race(bench, "flood", ours, theirs, bench.count(1))
        valid = all(led) and not floods.spilled(plain)
    cost = Measured(name="flood_cost_ratio", value=round(ratio, 3), n=len(flood), valid=valid)
    return [other_lane(beside), *same_lane(bench, mine), *goes_on(beneath), cost]


def other_lane(waits: Sequence[Wait]) -> Measured:
    """Judge the quiet tenant of another lane."""
    counted = [w.took_s for w in waits if w.at >= COUNTED_FROM_S]
    value = round(quantile(counted, 0.95) * 1000, 1)
    return Measured(name="flood_other_lane_p95_ms", value=value, n=len(counted))


def goes_on(waits: Sequence[Wait]) -> list[Measured]:
    """Judge the quiet tenant in the lane of a flood that goes on: when it settles, and from then on."""
    settled = settled_at(waits)
    after = [w.took_s for w in waits if w.at >= settled]
    p95 = quantile(after, 0.95)
    return [
        Measured(name="flood_goes_on_settled_s", value=round(settled, 1), n=len(after)),
        Measured(name="flood_goes_on_p95_ms", value=round(p95 * 1000, 1), n=len(after)),
    ]


def settled_at(waits: Sequence[Wait]) -> float:
    """Return from when on, in seconds from the start, every event takes less than a second."""
    late = [w for w in waits if w.took_s >= SETTLED_S]
    last = max((w.at for w in late), default=-1.0)
    return min((w.at for w in waits if w.at > last), default=float("inf"))


def same_lane(bench: Bench, legs: Sequence[Sequence[Wait]]) -> list[Measured]:
    """Judge the quiet tenant in the flood's lane: the worst of the legs."""
    settled = [settled_at(waits) for waits in legs]
    after = [
        [w.took_s for w in waits if w.at >= max(at, COUNTED_FROM_S)]
        for waits, at in zip(legs, settled, strict=True)
    ]
    bench.note("flood_same_lane_settled_s", [round(at, 1) for at in settled])
    n = min(map(len, after))
    p95 = max(quantile(took, 0.95) for took in after)
    worst = max(w.took_s for waits in legs for w in waits)
    return [
        Measured(name="flood_same_lane_settled_s", value=round(max(settled), 1), n=n),
        Measured(name="flood_same_lane_p95_ms", value=round(p95 * 1000, 1), n=n),
        Measured(name="flood_same_lane_worst_s", value=round(worst, 1), n=n),
    ]


PROOF = Proof("flood", GOALS, prove)
