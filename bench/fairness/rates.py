"""Shares by weight, and one tenant against twenty: deliveries that wait before the worker starts.

The bottleneck of the worker is its slots (endpoints that take 50 ms), not the machine: a scheduler shares out
its backlog, and there is no backlog where the broker is slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.broker import Broker
from bench.core.legs import LEG_S, Track, race
from bench.core.throughput import CONCURRENCY, Shape
from bench.fairness.field import events_of, lanes_of
from bench.nginx import Nginx
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.processes.daemon import Daemon, subscription

WEIGHTS = (1, 2, 4)
COUNTED = 10_000  #: deliveries over which the shares are taken
SKIPPED = 1_000  #: deliveries of the start, while the lanes are opened one after another
SPARE = 1.6  #: each tenant has so many times its share ready, so that none runs out of work meanwhile
DELIVERIES = 20_000
BLOCKS = 3
SETTINGS = {"LEVERET_SENDING__CONCURRENCY": str(CONCURRENCY)}
SLOTS = {"LEVERET_SENDING__CONCURRENCY": "64", "LEVERET_FAIRNESS__NOISY_AFTER_S": "3600"} | {
    "LEVERET_WINDOWS__LANE_PREFETCH": "1000"  # so that a slow broker does not decide the shares
}
ANSWER_S = 0.05
CANDIDATES = [f"w{number:02d}" for number in range(40)]

WEIGHT_GOALS = (Goal(name="weights_error", text="≤ 0.05", unit="ratio", n=COUNTED),)
ONE_GOALS = (Goal(name="one_tenant_ratio", text="≥ 0.9", unit="ratio", n=DELIVERIES),)


async def prove_weights(bench: Bench) -> Sequence[Measured]:
    """Let tenants of weight 1, 2 and 4 wait in three lanes, and count the first deliveries."""
    counted = bench.count(COUNTED, 350)
    paths = [f"/slow/{tenant}?s={ANSWER_S:g}" for tenant in CANDIDATES]
    async with (
        Broker(bench) as broker,
        Nginx(bench.folder) as nginx,
        Sink(bench.folder, dict(zip(CANDIDATES, paths, strict=True))) as sink,
    ):
        async with Daemon(bench.folder, broker.url, SETTINGS, name="first") as first:
            await first.subscribe([subscription("any", nginx.url("any"))])
            await Track(bench, broker, nginx, first).lay_out()
        lanes = await lanes_of(broker, CANDIDATES)
        by_lane = {lane: tenant for tenant, lane in lanes.items()}
        weights = dict(zip(sorted(by_lane.values()), WEIGHTS, strict=False))
        tenants = ",".join(f'"{tenant}":{weight}' for tenant, weight in weights.items())
        home = {"LEVERET_HOME": str(first.home)}
        settings = SLOTS | {"LEVERET_FAIRNESS__TENANTS": f"{{{tenants}}}"} | home
        async with Daemon(bench.folder, broker.url, settings) as daemon:
            track = Track(bench, broker, nginx, daemon)
            await daemon.subscribe(
                [
                    subscription(tenant, sink.url(tenant), concurrency=CONCURRENCY) | {"tenant": tenant}
                    for tenant in weights
                ]
            )
            events = [
                event
                for tenant, weight in weights.items()
                for event in events_of(
                    tenant, int(SPARE * (SKIPPED + counted) * weight / sum(WEIGHTS)), "weights"
                )
            ]
            await track.load(events)
            await daemon.start()
            await sink.until_answered(SKIPPED + counted, LEG_S)
            await track.halt()
        order = sorted(sink.read(), key=lambda seen: seen.began)[SKIPPED : SKIPPED + counted]
    got = Counter(seen.path for seen in order)
    bench.note("weights_deliveries", {f"{weights[t]}": got[t] for t in weights})
    shares = [got[t] / counted / (w / sum(WEIGHTS)) for t, w in weights.items()]
    error = max(abs(share - 1) for share in shares)
    return [Measured(name="weights_error", value=round(error, 4), n=sum(got.values()))]


async def prove_one(bench: Bench) -> Sequence[Measured]:
    """Race one tenant, which has one lane, against twenty."""
    deliveries = bench.count(DELIVERIES, 100)
    async with (
        Broker(bench) as broker,
        Nginx(bench.folder) as nginx,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        track = Track(bench, broker, nginx, daemon)
        one, twenty = Shape("one"), Shape("twenty", tenants=20)
        await daemon.subscribe(twenty.subscriptions(nginx))
        await track.lay_out()
        few, many = one.events(deliveries), twenty.events(deliveries)
        ratio = await race(
            bench,
            "one_tenant",
            lambda: track.run_daemon(few, len(few)),
            lambda: track.run_daemon(many, len(many)),
            bench.count(BLOCKS),
        )
    return [Measured(name="one_tenant_ratio", value=round(ratio, 3), n=len(few))]


WEIGHTS_PROOF = Proof("weights", WEIGHT_GOALS, prove_weights)
ONE_PROOF = Proof("one_tenant", ONE_GOALS, prove_one)
