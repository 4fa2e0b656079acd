"""Jain's index over 50 tenants under a load of 150 % of the worker's capacity, and the wanted parts.

The load is published before the worker starts, so that it is the same on every machine. Tenant k of n wants
1/sqrt(k) of the first one's load (Zipf with exponent 0.5): with exponent 1 only six of 50 tenants would want
more than their part, and the index needs at least 20. The slots are the bottleneck (64 of them, endpoints of
5 and 200 ms), not the machine. The windows hold the whole backlog: the lane orders the messages behind a
window, not the scheduler.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.broker import Broker
from bench.core.legs import LEG_S, Track
from bench.fairness.field import events_of
from bench.nginx import Nginx
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from consumer.core.fairness.jain import jain
from tests.support.broker.load import EventSpec
from tests.support.processes.daemon import Daemon, subscription

TENANTS = 50
EXPONENT = 0.5
OVERLOAD = 1.5
FANOUTS = (1, 20)
LATENCIES_S = (0.005, 0.2)
SLOTS = 64
SKIPPED_S = 10.0  #: of the start, while the lanes are opened one after another
WINDOW_S = 60.0
LEAST_TENANTS = 20
SETTINGS = {
    "LEVERET_SENDING__CONCURRENCY": str(SLOTS),
    "LEVERET_FAIRNESS__NOISY_AFTER_S": "3600",
    "LEVERET_WINDOWS__LANE_PREFETCH": "20000",
    "LEVERET_WINDOWS__IN_HAND_S": "900",
    "LEVERET_EVENTS__MAX_EVENT_BYTES": "4096",  # with windows as large the memory would not be enough
}

GOALS = (Goal(name="jain", text="≥ 0.98", unit="index", n=LEAST_TENANTS),)


@dataclass(frozen=True, slots=True)
class Wanting:
    """One tenant."""

    name: str
    fanout: int
    latency_s: float
    deliveries: int  #: that it wants

    def endpoints(self) -> list[str]:
        """Return the names of its endpoints."""
        return [f"{self.name}-{index:02d}" for index in range(self.fanout)]

    def path(self, endpoint: str) -> str:
        """Return the settings of the receiver."""
        return f"/slow/{endpoint}?s={self.latency_s:g}"


def field_of(seconds: float, slots: int) -> list[Wanting]:
    """Return the tenants with the deliveries that they want in *seconds* of a worker with *slots* slots.

    Every pair of fan-out and latency has as many heavy tenants as light ones.
    """
    kinds = [(fanout, latency) for fanout in FANOUTS for latency in LATENCIES_S]
    mean_s = sum(LATENCIES_S) / len(LATENCIES_S)  # of a delivery, when all have equally many
    all_wanted = OVERLOAD * seconds * slots / mean_s
    weights = [1 / (rank + 1) ** EXPONENT for rank in range(TENANTS)]
    return [
        Wanting(f"j{rank:02d}", *kinds[rank % len(kinds)], int(all_wanted * weight / sum(weights)))
        for rank, weight in enumerate(weights)
    ]


def events_for(tenants: Sequence[Wanting]) -> list[EventSpec]:
    """Return the events of all, mixed as if they had come side by side; the same on every run."""
    events = [
        event
        for tenant in tenants
        for event in events_of(tenant.name, tenant.deliveries // tenant.fanout, "jain", size=200)
    ]
    random.Random(6).shuffle(events)
    return events


def shares(seen: Sequence[Seen], tenants: Sequence[Wanting], since: float, until: float) -> dict[str, int]:
    """Return the deliveries from *since* to *until* of each tenant that had work left at the end."""
    by_endpoint = {endpoint: tenant.name for tenant in tenants for endpoint in tenant.endpoints()}
    began = [(by_endpoint[one.path], one.began) for one in seen]
    got = Counter(name for name, at in began if since <= at < until)
    so_far = Counter(name for name, at in began if at < until)
    wanted = {tenant.name: tenant.deliveries // tenant.fanout * tenant.fanout for tenant in tenants}
    return {name: got[name] for name in wanted if so_far[name] < wanted[name]}


async def prove(bench: Bench) -> Sequence[Measured]:
    """Publish all, start the worker, and look at a minute of it."""
    window_s = max(5.0, WINDOW_S * bench.scale)
    tenants = field_of(SKIPPED_S + window_s, SLOTS)
    targets = {endpoint: tenant.path(endpoint) for tenant in tenants for endpoint in tenant.endpoints()}
    async with (
        Broker(bench) as broker,
        Nginx(bench.folder) as nginx,
        Sink(bench.folder, targets) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        track = Track(bench, broker, nginx, daemon)
        await daemon.subscribe(
            [
                subscription(endpoint, sink.url(endpoint), concurrency=SLOTS) | {"tenant": tenant.name}
                for tenant in tenants
                for endpoint in tenant.endpoints()
            ]
        )
        await track.lay_out()
        await track.load(events_for(tenants))
        await daemon.start()
        if not await sink.until_answered(1, LEG_S):
            raise TimeoutError("nothing was delivered")
        await asyncio.sleep(SKIPPED_S + window_s + 1.0)
        await track.halt()
        seen = sink.read()
    since = min(one.began for one in seen) + SKIPPED_S
    got = shares(seen, tenants, since, since + window_s)
    bench.note("jain_per_s", round(sum(got.values()) / window_s, 1))
    bench.note("jain_deliveries", dict(sorted(got.items())))
    return [Measured(name="jain", value=round(jain(list(got.values())), 4), n=len(got))]


PROOF = Proof("jain", GOALS, prove)
