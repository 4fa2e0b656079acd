"""Measure the cost of two sick endpoints with four workers that agree.

One is down for a minute at 100 events/s. The other flaps: it takes a request that comes after some seconds
of silence, such as a probe, and fails all the rest; each probe that it takes begins a ramp. All times are the
receiver's own. The breaker counts as open from the first worker's log line; requests under way then get a
second to end. ``python -m bench.outage.four_workers`` runs it alone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof, command
from bench.sink import Seen, Sink
from tests.support.broker.load import EventSpec, make_events, publish
from tests.support.processes.children import fetch, wait_until
from tests.support.processes.daemon import Daemon, subscription

WORKERS = 4
DOWN_S = 60.0
BEFORE_S = 3.0
READY_S = 15.0  #: from the receiver's start until all workers know the subscriptions
PER_S = 100
FLAP_PER_S = 20
TICK_S = 0.5
COOLDOWN_S = 10.0
QUIET_S = 6.0  #: longer than the slowest slow start's distance, shorter than the cooldown
DRAIN_S = COOLDOWN_S + 120.0
SICK_TENANT, FLAP_TENANT = "t00", "t01"

GOALS = (
    Goal(name="four_workers_requests", text="≤ 32", unit="requests", n=5_000),
    Goal(name="flap_ramps", text="≤ 1", unit="ramps", n=4),
)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Let four workers meet an endpoint that is well, down and well again, and one that flaps."""
    down_s = max(2 * COOLDOWN_S, DOWN_S * bench.scale)
    async with Broker(bench) as broker, AsyncExitStack() as stack:
        daemons = await _start(bench, broker.url, stack)
        began = time.time() + READY_S
        down_at, up_at = began + BEFORE_S, began + BEFORE_S + down_s
        targets = {
            "sick": f"/plan/sick?say=200,503,200&at={down_at:.3f},{up_at:.3f}",
            "flap": f"/probes/flap?quiet={QUIET_S:g}",
        }
        sink = await stack.enter_async_context(Sink(bench.folder, targets))
        await _subscribe(daemons, sink)
        ready_before_s = began - time.time()
        bench.note("four_workers_ready_before_s", round(ready_before_s, 1))
        await asyncio.sleep(max(0.0, ready_before_s))
        count = await _publish_steadily(broker.url, BEFORE_S + down_s)
        await _drained(sink, count, up_at + DRAIN_S)
        parked = [row for row in await daemons[0].listing("parked", "list") if row["tenant"] == SICK_TENANT]
        changes = [_changes(daemon) for daemon in daemons]
        seen = sink.read()
    bench.note("four_workers_changes", [len(rows) for rows in changes])
    opened_at = min(_unix(row) for rows in changes for row in rows if row.get("after") == "open")
    sick = [one for one in seen if one.path == "sick"]
    taken = {one.id: one.ended for one in sick if one.status == 200}
    bench.note("four_workers_lost", count - len(taken) - len(parked))
    bench.note("four_workers_drained_after_s", round(max(taken.values()) - up_at, 1))
    valid = ready_before_s > 0 and all(changes) and len(taken) + len(parked) == count
    requests = down_requests(bench, sick, opened_at, up_at)
    return [
        Measured(name="four_workers_requests", value=requests, n=count, valid=valid),
        _flaps(bench, [one for one in seen if one.path == "flap"]),
    ]


async def _start(bench: Bench, url: str, stack: AsyncExitStack) -> list[Daemon]:
    """Start the workers on one home, so with one store; the first one makes it."""
    first = await stack.enter_async_context(Daemon(bench.folder, url, name="worker0"))
    shared = {"LEVERET_HOME": str(first.home)}
    others = [
        await stack.enter_async_context(Daemon(bench.folder, url, shared, f"worker{number}"))
        for number in range(1, WORKERS)
    ]
    await first.start()
    await asyncio.gather(*(daemon.start() for daemon in others))
    return [first, *others]


async def _subscribe(daemons: Sequence[Daemon], sink: Sink) -> None:
    """Subscribe both endpoints, and wait until every worker knows them."""
    breaker = {"failures": 5, "cooldown_s": COOLDOWN_S, "cooldown_max_s": COOLDOWN_S}
    sick = subscription("sick", sink.url("sick"), breaker=breaker)
    flap = subscription("flap", sink.url("flap"), breaker=breaker, tenant=FLAP_TENANT)
    await daemons[0].subscribe([sick, flap])
    for daemon in daemons:
        await wait_until(partial(_knows_two, daemon), READY_S)


def _knows_two(daemon: Daemon) -> bool:
    return b'leveret_subscriptions{enabled="true"} 2.0' in fetch(f"http://{daemon.listen}/metrics")


async def _publish_steadily(url: str, seconds: float) -> int:
    """Publish for so long, a batch each half second; return how many events the sick endpoint gets."""
    events, began = make_events("four", round(PER_S * seconds)), time.monotonic()
    flap = [replace(one, tenant=FLAP_TENANT) for one in make_events("flap", round(FLAP_PER_S * seconds))]
    for tick in range(round(seconds / TICK_S) + 1):
        await asyncio.sleep(max(0.0, began + tick * TICK_S - time.monotonic()))
        await publish(url, [*_of(events, PER_S, tick), *_of(flap, FLAP_PER_S, tick)])
    return len(events)


def _of(events: Sequence[EventSpec], per_s: float, tick: int) -> Sequence[EventSpec]:
    batch = round(per_s * TICK_S)
    return events[tick * batch : (tick + 1) * batch]


async def _drained(sink: Sink, wanted: int, until: float) -> None:
    """Wait until the sick endpoint took so many ids, or the time is up."""
    while time.time() < until:
        if len({one.id for one in sink.read() if one.path == "sick" and one.status == 200}) >= wanted:
            return
        await asyncio.sleep(1)


def down_requests(bench: Bench, seen: Sequence[Seen], opened_at: float, up_at: float) -> int:
    """Count the requests from a second after opening until the endpoint is back."""
    late = sorted(one.began for one in seen if opened_at + 1 < one.began < up_at)
    failed = sum(one.status == 503 for one in seen)
    bench.note("four_workers_failed_requests", failed)
    bench.note("four_workers_requests_after_opening_s", [round(at - opened_at, 2) for at in late])
    return len(late)


def _flaps(bench: Bench, seen: Sequence[Seen]) -> Measured:
    """Count the ramps that began within any one cooldown; each begins with a request that was taken."""
    ramps = sorted(one.began for one in seen if one.status == 200)
    bench.note("flap_requests_per_ramp", round(len(seen) / max(1, len(ramps)), 1))
    bench.note("flap_ramps_after_s", [round(at - ramps[0], 1) for at in ramps])
    most = max((bisect_left(ramps, at + COOLDOWN_S) - index for index, at in enumerate(ramps)), default=0)
    return Measured(name="flap_ramps", value=most, n=len(ramps))


def _changes(daemon: Daemon) -> list[dict[str, object]]:
    return [row for row in daemon.lines("breaker.changed") if row["tenant"] == SICK_TENANT]


def _unix(row: dict[str, object]) -> float:
    return datetime.fromisoformat(str(row["timestamp"])).timestamp()


PROOF = Proof("four_workers", GOALS, prove)

if __name__ == "__main__":
    sys.exit(command((PROOF,), Path("build/prove-outage-workers.json"), __doc__))
