"""Measure the broker's disk when everything is delivered and every queue is empty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import make_events, publish, wait_empty
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

DELIVERIES = 50_000
SIZE_BYTES = 20_000
RUNGS = 3  #: waits that each delivery goes through: it fails so often, then it is taken
BATCH = 2_500
END_S = 1_500.0
TARGETS = {"late": f"/retry-after/late?s=0&times={RUNGS}"}  #: fails so often; a wait of 0 changes nothing
SETTLE_S = 30.0  #: from "all queues empty" to the reading
SETTINGS = {"LEVERET_SENDING__CONCURRENCY": "256"}

GOALS = (Goal(name="idle_queues_disk_mb", text="≤ 2048", unit="MiB", n=DELIVERIES),)


async def watch(bench: Bench, broker: Broker, sink: Sink, stop: asyncio.Event) -> float:
    """Note the largest size of the broker's folder until cancelled."""
    most = 0.0
    while not stop.is_set():
        most = max(most, await asyncio.to_thread(broker.disk_mb))
        bench.say(f"{await sink.answered()} requests answered, {most:.0f} MiB at most")
        with_timeout = asyncio.wait_for(stop.wait(), 15)
        try:
            await with_timeout
        except TimeoutError:
            continue
    return most


async def prove(bench: Bench) -> Sequence[Measured]:
    """Send every delivery through three rungs, wait until all is empty, and ask ``du``."""
    count = bench.count(DELIVERIES, 200)
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, TARGETS) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        policy = retry(max_attempts=RUNGS + 3)
        await daemon.subscribe(
            [subscription("late", sink.url("late"), retry=policy, breaker=NO_BREAKER, concurrency=200)]
        )
        await daemon.start()
        bench.note("disk_before_mb", round(broker.disk_mb(), 1))
        stop = asyncio.Event()
        watcher = asyncio.create_task(watch(bench, broker, sink, stop))
        began = time.monotonic()
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            await publish(broker.url, make_events(f"dsk_{start:06d}", size, size=SIZE_BYTES))
        done = await sink.until_answered(count * (RUNGS + 1), END_S)
        bench.note("disk_attempts_per_s", round(await sink.answered() / (time.monotonic() - began), 1))
        empty = await wait_empty(broker.management, timeout_s=120)
        stop.set()
        bench.note("disk_most_mb", round(await watcher, 1))
        bench.note("disk_when_empty_mb", round(broker.disk_mb(), 1))
        await asyncio.sleep(SETTLE_S)
        return [
            Measured(
                name="idle_queues_disk_mb",
                value=round(broker.disk_mb(), 1),
                n=count if done else 0,
                valid=empty,
            )
        ]


PROOF = Proof("idle_disk", GOALS, prove)
