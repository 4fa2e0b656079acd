"""How much memory the daemon takes while messages pile up, against the memory that it was given.

Each load comes twice: to a daemon that runs, and to one that starts in front of it all. The peak is the
kernel's own: it is set back when the daemon is idle, so that nothing between two looks is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from tests.support.broker.load import EventSpec, publish, wait_empty
from tests.support.hostile.large_events import TENANTS, Load, events
from tests.support.processes.daemon import NO_BREAKER, Daemon, subscription

MIB = 1024 * 1024
MEMORY_BYTES = 256 * MIB
IDLE_S = 3.0
PATIENCE_S = 240.0
SLOW_S = 2  #: an endpoint takes this long, so that messages pile up

GOALS = (Goal(name="rss_ratio", text="≤ 1.1", unit="ratio", n=2),)
LOADS: Sequence[Load] = (
    Load(name="12MB", count=60, size_bytes=12_000_000),
    Load(name="256kB", count=4_000, size_bytes=256_000),
)


def memory_of(pid: int, name: str) -> int:
    """Return ``VmRSS`` or ``VmHWM``, the resident memory now or at its peak, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no {name}")


def forget_peak(pid: int) -> None:
    """Set the peak back to the memory that is resident now. Source: proc(5), ``clear_refs``."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")


async def taken(
    bench: Bench, broker: Broker, daemon: Daemon, many: Sequence[EventSpec], *, waiting: bool
) -> float:
    """Return the peak above idle, over the memory given; the events come now, or have been *waiting*."""
    async with daemon:
        await daemon.start()
        assert daemon.process is not None
        pid = daemon.process.pid
        await asyncio.sleep(IDLE_S)
        idle = memory_of(pid, "VmRSS")
    if waiting:
        await publish(broker.url, many)
    async with daemon:
        await daemon.start()
        pid = daemon.process.pid
        if not waiting:
            await asyncio.sleep(IDLE_S)
            idle = memory_of(pid, "VmRSS")
            forget_peak(pid)
            await publish(broker.url, many)
        settled = await wait_empty(broker.management, keep=("leveret.parked",), timeout_s=PATIENCE_S)
        peak = memory_of(pid, "VmHWM")
    if not settled:
        raise TimeoutError(f"not all was settled within {PATIENCE_S} s: {daemon.tail()}")
    return (peak - idle) / MEMORY_BYTES


async def prove(bench: Bench) -> Sequence[Measured]:
    """Return the worst ratio over both loads, each to a daemon that runs and to one that starts."""
    ratios: dict[str, float] = {}
    given = {"LEVERET_LIMITS__MEMORY_BYTES": str(MEMORY_BYTES)}
    async with Broker(bench) as broker, Sink(bench.folder, {"slow": f"/slow?s={SLOW_S}"}) as sink:
        slow = [
            subscription(f"slow-{n}", sink.url("slow"), tenant=f"t{n:02d}", breaker=NO_BREAKER)
            for n in range(TENANTS)
        ]
        for load in LOADS:
            for waiting in (False, True):
                name = f"{load.name}-{'waiting' if waiting else 'coming'}"
                daemon = Daemon(bench.folder, broker.url, {**given, **load.settings})
                await daemon.subscribe(slow)
                many = events(load, bench.count(load.count, 4), name)
                ratios[name] = round(await taken(bench, broker, daemon, many, waiting=waiting), 3)
                bench.say(f"{name}: {ratios[name]}")
    bench.note("rss_ratios", ratios)
    return [Measured(name="rss_ratio", value=max(ratios.values()), n=len(ratios))]


PROOF = Proof("memory", GOALS, prove)
