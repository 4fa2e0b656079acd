"""Measure a daemon with 1,000 subscriptions before it has work: memory, and time to be ready.

The broker is up, the subscriptions are in the store. The first start also declares the topology.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.children import children_of, wait_until
from tests.support.processes.daemon import Daemon, subscription
from tests.support.processes.postgres import Postgres

SUBSCRIPTIONS = 1_000
STARTS = 5
IDLE_S = 10.0  #: from ready to the reading; the store is checked 20 times meanwhile
STOP_S = 40.0

GOALS = (
    Goal(name="rss_idle_mb", text="≤ 150", unit="MiB", n=SUBSCRIPTIONS),
    Goal(name="start_to_ready_s", text="≤ 5", unit="s", n=SUBSCRIPTIONS),
)


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MiB.

    Source: proc(5), VmRSS.
    """
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"/proc/{pid}/status says nothing of VmRSS")
    return int(found[1]) / 1024


async def start_and_idle(daemon: Daemon) -> tuple[float, float]:
    """Start the daemon, let it idle, stop it; return seconds to ready and MiB."""
    began = time.monotonic()
    daemon.spawn()
    if not await wait_until(daemon.ready, 60):
        raise TimeoutError(f"the daemon is not ready: {daemon.tail()}")
    ready_s = time.monotonic() - began
    await asyncio.sleep(IDLE_S)
    assert daemon.process is not None
    used_mb = sum(map(rss_mb, (daemon.process.pid, *children_of(daemon.process))))
    daemon.terminate()
    if await daemon.wait_exit(STOP_S) != 0:
        raise RuntimeError(f"the daemon did not end well: {daemon.tail()}")
    return ready_s, used_mb


async def prove(bench: Bench) -> Sequence[Measured]:
    """Start it several times on each kind of store, and report the worst."""
    count = bench.count(SUBSCRIPTIONS, 10)
    entries = [subscription(f"idle-{n:04d}", f"http://127.0.0.1:9/{n}") for n in range(count)]
    node = Postgres()
    node.create()
    found: dict[str, list[tuple[float, float]]] = {}
    try:
        await node.start()
        stores = {"sqlite": {}, "postgres": {"LEVERET_DATABASE_URL": await node.database()}}
        async with Broker(bench) as broker:
            for name, settings in stores.items():
                own = {**settings, "LEVERET_TOPOLOGY__PREFIX": name}
                daemon = Daemon(bench.folder, broker.url, own, name)
                await daemon.subscribe(entries)
                found[name] = [await start_and_idle(daemon) for _ in range(bench.count(STARTS))]
    finally:
        await node.remove()
    runs = [run for of_store in found.values() for run in of_store]
    for name, of_store in found.items():
        bench.note(f"idle_{name}_ready_s", [round(ready_s, 2) for ready_s, _ in of_store])
        bench.note(f"idle_{name}_rss_mb", [round(used_mb, 1) for _, used_mb in of_store])
    bench.note("start_to_ready_median_s", round(statistics.median(ready_s for ready_s, _ in runs), 2))
    return [
        Measured(name="rss_idle_mb", value=round(max(used_mb for _, used_mb in runs), 1), n=count),
        Measured(name="start_to_ready_s", value=round(max(ready_s for ready_s, _ in runs), 2), n=count),
    ]


PROOF = Proof("idle", GOALS, prove)
