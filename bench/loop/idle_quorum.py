"""Two of three nodes end while nothing is in flight: the time until the worker is unready.

The node that remains keeps the worker's connections (``cluster_partition_handling`` is ``ignore``), and its
leaders answer passive declarations. So only a publish shows the loss. After the return of the nodes the
worker must be ready again, and no endpoint may get anything but the events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events, publish
from tests.support.cluster.cluster import Cluster
from tests.support.processes.daemon import Daemon, subscription

ROUNDS = 3
REST_S = 15.0  #: without traffic before the nodes end
PATIENCE_S = 180.0
LOOK_S = 0.1
EVENTS = 5
SETTINGS = {"LEVERET_TOPOLOGY__LANES": "4", "LEVERET_TOPOLOGY__RUNGS_S": "[0.5, 1.0, 2.0]"}

GOALS = (Goal(name="idle_quorum_seen_s", text="≤ 15", unit="s", n=ROUNDS),)


async def _until(daemon: Daemon, *, ready: bool) -> float:
    """Return the seconds until ``/readyz`` is green, or red."""
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(daemon.ready) is not ready:  # noqa: ASYNC110 (asked over HTTP)
            await asyncio.sleep(LOOK_S)
    return time.monotonic() - began


async def prove(bench: Bench) -> Sequence[Measured]:
    """Take two nodes away from a worker without traffic, several times."""
    rounds = bench.count(ROUNDS)
    seen_s, back_s = [], []
    async with (
        Cluster(bench.folder, handling="ignore") as cluster,
        Sink(bench.folder, {"shop": "/ok/shop"}) as sink,
        Daemon(bench.folder, cluster.nodes[0].url, SETTINGS) as daemon,
    ):
        bench.notes["rabbitmq"] = cluster.nodes[0].version()
        await daemon.subscribe([subscription("shop", sink.url("shop"))])
        await daemon.start()
        for number in range(rounds):
            await asyncio.sleep(REST_S)
            for node in cluster.nodes[1:]:
                await node.kill()
            seen_s.append(await _until(daemon, ready=False))
            await cluster.start(*cluster.nodes[1:])
            back_s.append(await _until(daemon, ready=True))
            await publish(cluster.nodes[0].url, make_events(f"idle_{number}", EVENTS))
            await sink.until_answered((number + 1) * EVENTS, PATIENCE_S)
        reasons = [str(line.get("reason")) for line in daemon.lines("pressure.began")]
        requests = len(sink.read())
    bench.note("idle_quorum_back_s", [round(each, 1) for each in back_s])
    bench.note("idle_quorum_reasons", reasons)
    bench.note("idle_quorum_requests", requests)
    valid = requests == rounds * EVENTS
    return [Measured(name="idle_quorum_seen_s", value=round(max(seen_s), 1), n=rounds, valid=valid)]


PROOF = Proof("idle_quorum", GOALS, prove)
