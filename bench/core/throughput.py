"""Deliveries a second of the daemon, against a bare loop on the same libraries.

The bare loop is judged too: by the rates of its two halves, consume+ack and POST, alone. On one
Python thread their costs add up, so ``1 / (1/consume + 1/post)`` is as fast as any loop can be; the share of
that, and of the slower half, are printed, and the median share has to be 0.85.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.broker import Broker
from bench.core.legs import Track, race
from bench.nginx import Nginx
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.broker.load import EventSpec, make_events, secret_of
from tests.support.processes.daemon import Daemon, subscription

DELIVERIES = 20_000  #: per leg
BLOCKS = 5
PREFETCHES = (50, 200, 1000)
FANOUT = 20
JUDGED_ROUNDS = 3
BARE_SHARE = 0.85  #: of the bound that the bare loop has to reach to be a yardstick
CONCURRENCY = 256  #: of the worker and of each endpoint: like the bare loop, which has no bound by endpoint
SETTINGS = {"LEVERET_SENDING__CONCURRENCY": str(CONCURRENCY)}

GOALS = (
    Goal(name="throughput_ratio_f1", text="≥ 0.70", unit="ratio", n=DELIVERIES),
    Goal(name="throughput_ratio_f20", text="≥ 0.80", unit="ratio", n=DELIVERIES),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The events and subscriptions of a leg."""

    label: str
    fanout: int = 1
    tenants: int = 1

    def events(self, deliveries: int) -> list[EventSpec]:
        """Return the events that make *deliveries*."""
        return make_events(f"thr_{self.label}", deliveries // self.fanout, tenants=self.tenants)

    def targets(self, nginx: Nginx) -> list[tuple[str, str]]:
        """Return URL and secret of each endpoint that one event goes to."""
        return [(nginx.url(f"e{index:02d}"), secret_of(f"e{index:02d}")) for index in range(self.fanout)]

    def subscriptions(self, nginx: Nginx, path: str = "") -> list[dict[str, object]]:
        """Return the daemon's subscriptions: *fanout* endpoints for each tenant, each with its own secret.

        The path of their URLs begins with *path*.
        """
        start = f"{path}/e" if path else "e"
        return [
            subscription(
                f"t{tenant:02d}-e{index:02d}", nginx.url(f"{start}{index:02d}"), concurrency=CONCURRENCY
            )
            | {"tenant": f"t{tenant:02d}"}
            for tenant in range(self.tenants)
            for index in range(self.fanout)
        ]


async def best_prefetch(track: Track, shape: Shape, deliveries: int) -> int:
    """Return the prefetch with which the bare loop is fastest."""
    rates = {}
    for prefetch in PREFETCHES:
        events = shape.events(deliveries)
        rates[prefetch] = await track.run_bare(events, shape.targets(track.nginx), prefetch)
    track.bench.note(
        f"bare_{shape.label}_per_s_by_prefetch", {p: round(rate, 1) for p, rate in rates.items()}
    )
    return max(rates, key=lambda prefetch: rates[prefetch])


async def compare(track: Track, shape: Shape, blocks: int) -> tuple[float, int, int]:
    """Race daemon and bare loop; return the median ratio, deliveries per leg, and the prefetch."""
    deliveries = track.bench.count(DELIVERIES, 40 * shape.fanout)
    events, targets = shape.events(deliveries), shape.targets(track.nginx)
    await track.daemon.subscribe(shape.subscriptions(track.nginx))
    await track.lay_out()
    prefetch = await best_prefetch(track, shape, deliveries)
    requests = len(events) * shape.fanout

    async def ours() -> float:
        return await track.run_daemon(events, requests)

    async def theirs() -> float:
        return await track.run_bare(events, targets, prefetch)

    ratio = await race(track.bench, f"throughput_{shape.label}", ours, theirs, blocks)
    return ratio, requests, prefetch


async def judge_bare(track: Track, prefetch: int) -> bool:
    """Run both halves of the bare loop alone beside the loop; return whether it is a fair yardstick.

    Like is compared with like: all three with the prefetch that the loop was fastest with, in turn.
    """
    bench, shape = track.bench, Shape("f1")
    events = shape.events(bench.count(DELIVERIES, 100))
    target = shape.targets(track.nginx)[0]
    rounds = []
    for _ in range(bench.count(JUDGED_ROUNDS)):
        bare = await track.run_bare(events, [target], prefetch)
        consume = await track.run_raw("consume", events, target, prefetch)
        post = await track.run_raw("post", events, target, prefetch)
        bound = 1 / (1 / consume + 1 / post)
        rounds.append((bare / bound, bare / min(consume, post), bare, consume, post))
    middle = [statistics.median(values) for values in zip(*rounds, strict=True)]
    bench.note("bare_share_of_sum_of_costs", [round(share, 3) for share, *_ in rounds])
    bench.note("bare_share_of_slower_half", round(middle[1], 3))
    bench.note("bare_consume_post_per_s", [round(rate) for rate in middle[2:]])
    return bool(middle[0] >= BARE_SHARE)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Race with fan-out 1 and 20; print 20 tenants and one lane as well."""
    blocks = bench.count(BLOCKS)
    async with Broker(bench) as broker, Nginx(bench.folder) as nginx:
        async with Daemon(bench.folder, broker.url, SETTINGS) as daemon:
            track = Track(bench, broker, nginx, daemon)
            f1, n1, prefetch = await compare(track, Shape("f1"), blocks)
            fair = await judge_bare(track, prefetch)
            f20, n20, _ = await compare(track, Shape("f20", fanout=FANOUT), blocks)
            await compare(track, Shape("tenants20", tenants=20), 1)
        single = SETTINGS | {"LEVERET_TOPOLOGY__LANES": "1", "LEVERET_TOPOLOGY__PREFIX": "single"}
        async with Daemon(bench.folder, broker.url, single, name="single") as daemon:
            await compare(Track(bench, broker, nginx, daemon, "single"), Shape("one_lane"), 1)
    return [
        Measured(name="throughput_ratio_f1", value=round(f1, 3), n=n1, valid=fair),
        Measured(name="throughput_ratio_f20", value=round(f20, 3), n=n20, valid=fair),
    ]


PROOF = Proof("throughput", GOALS, prove)
