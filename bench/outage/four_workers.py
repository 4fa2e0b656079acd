"""Four workers, one endpoint that is down for a minute at 100 events/s: what it costs when all agree.

``python -m bench.outage.four_workers`` runs it alone. All times are the receiver's own. The breaker counts as
open from the first worker's log line; what was under way then gets a second to end.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

from bench.broker import Broker
from bench.daemon import Daemon, subscription
from bench.load import make_events, publish
from bench.prove import Bench, Goal, Measured, Proof, command
from bench.sink import Seen, Sink

WORKERS = 4
DOWN_S = 60.0
BEFORE_S = 3.0
START_S = 25.0  #: four daemons start within this time, one after the other
PER_S = 100
TICK_S = 0.5
COOLDOWN_S = 10.0
DRAIN_S = COOLDOWN_S + 120.0

GOALS = (Goal(name="four_workers_requests", text="≤ 32", unit="requests", n=5_000),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Let four workers meet an endpoint that is well, down and well again."""
    down_s = max(2 * COOLDOWN_S, DOWN_S * bench.scale)
    began = time.time() + START_S
    up_at = began + BEFORE_S + down_s
    targets = {"sick": f"/plan/sick?say=200,503,200&at={began + BEFORE_S:.3f},{up_at:.3f}"}
    async with Broker(bench) as broker, Sink(bench.folder, targets) as sink, AsyncExitStack() as stack:
        daemons = await _start(bench, broker.url, sink, stack)
        bench.note("four_workers_ready_before_s", round(began - time.time(), 1))
        started = time.time() < began
        await asyncio.sleep(max(0.0, began - time.time()))
        count = await _publish_steadily(broker.url, BEFORE_S + down_s)
        await _drained(sink, count, up_at + DRAIN_S)
        parked = len(await daemons[0].listing("parked", "list"))
        opened = [_unix(row) for daemon in daemons for row in daemon.lines("breaker.changed") if _opens(row)]
        counted = [sum(1 for _ in daemon.lines("breaker.changed")) for daemon in daemons]
        bench.note("four_workers_changes", counted)
        measured = measure(bench, sink.read(), min(opened), up_at)
        taken = {one.id for one in sink.read() if one.status == 200}
    bench.note("four_workers_lost", count - len(taken) - parked)
    valid = started and all(counted) and len(taken) + parked == count
    return [Measured(name="four_workers_requests", value=measured, n=count, valid=valid)]


async def _start(bench: Bench, url: str, sink: Sink, stack: AsyncExitStack) -> list[Daemon]:
    """Start the workers on one home, so with one store."""
    breaker = {"failures": 5, "cooldown_s": COOLDOWN_S, "cooldown_max_s": COOLDOWN_S}
    first = await stack.enter_async_context(Daemon(bench.folder, url, name="worker0"))
    await first.subscribe([subscription("sick", sink.url("sick"), breaker=breaker)])
    shared = {"LEVERET_HOME": str(first.home)}
    others = [
        await stack.enter_async_context(Daemon(bench.folder, url, shared, f"worker{number}"))
        for number in range(1, WORKERS)
    ]
    await first.start()
    await asyncio.gather(*(daemon.start() for daemon in others))
    return [first, *others]


async def _publish_steadily(url: str, seconds: float) -> int:
    """Publish for so long, a batch each half second; return how many events."""
    events = make_events("four", round(PER_S * seconds))
    batch, began = round(PER_S * TICK_S), time.monotonic()
    for index in range(0, len(events), batch):
        await asyncio.sleep(max(0.0, began + index / PER_S - time.monotonic()))
        await publish(url, events[index : index + batch])
    return len(events)


async def _drained(sink: Sink, wanted: int, until: float) -> None:
    """Wait until so many ids were taken, or the time is up."""
    while time.time() < until:
        if len({one.id for one in sink.read() if one.status == 200}) >= wanted:
            return
        await asyncio.sleep(1)


def measure(bench: Bench, seen: Sequence[Seen], opened_at: float, up_at: float) -> int:
    """Count the requests from a second after opening until the endpoint is back."""
    late = sorted(one.began for one in seen if opened_at + 1 < one.began < up_at)
    failed = sum(one.status == 503 for one in seen)
    bench.note("four_workers_failed_requests", failed)
    bench.note("four_workers_requests_after_opening_s", [round(at - opened_at, 2) for at in late])
    return len(late)


def _opens(row: dict[str, object]) -> bool:
    return row.get("after") == "open"


def _unix(row: dict[str, object]) -> float:
    return datetime.fromisoformat(str(row["timestamp"])).timestamp()


PROOF = Proof("four_workers", GOALS, prove)

if __name__ == "__main__":
    sys.exit(command((PROOF,), Path("build/prove-outage-workers.json"), __doc__))
