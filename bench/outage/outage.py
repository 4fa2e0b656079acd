"""An endpoint is down for a minute at 100 events/s: measure the cost, and its recovery.

All times are the receiver's own. The breaker counts as open from the answer that is its fifth failure in a
row; requests under way then get a second to end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.broker import Broker
from bench.outage.steady import peak_per_s, publish_steadily, until_taken
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from tests.support.broker.load import make_events
from tests.support.processes.daemon import Daemon, subscription

DOWN_S = 60.0
BEFORE_S = 3.0
PER_S = 100.0
RATE_PER_S = 300.0
COOLDOWN_S = 10.0
FAILURES = 5
DRAIN_S = COOLDOWN_S + 60.0

GOALS = (
    Goal(name="down_requests", text="≤ 8", unit="requests", n=5_000),
    Goal(name="down_attempts_burned", text="0", unit="attempts", n=5_000),
    Goal(name="probe_after_recovery_s", text=f"≤ {1.2 * COOLDOWN_S:g}", unit="s", n=5_000),
    Goal(name="drained_after_s", text=f"≤ {DRAIN_S:g}", unit="s", n=5_000),
    Goal(name="recovery_peak_ratio", text="≤ 1.2", unit="ratio", n=5_000),
    Goal(name="down_lost", text="0", unit="deliveries", n=5_000),
    Goal(name="down_parked", text="0", unit="deliveries", n=5_000),
)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Let it be well, down and well again while events come steadily."""
    down_s = max(2 * COOLDOWN_S, DOWN_S * bench.scale)
    async with Broker(bench) as broker, Daemon(bench.folder, broker.url) as daemon:
        began = time.time() + 8.0  # the daemon starts meanwhile
        down_at, up_at = began + BEFORE_S, began + BEFORE_S + down_s
        targets = {"sick": f"/plan/sick?say=200,503,200&at={down_at:.3f},{up_at:.3f}"}
        async with Sink(bench.folder, targets) as sink:
            await daemon.subscribe([_sick(sink)])
            await daemon.start()
            await asyncio.sleep(max(0.0, began - time.time()))
            events = make_events("out", round(PER_S * (BEFORE_S + down_s)))
            bench.say(f"publishing {len(events)} events; down for {down_s:g} s")
            await publish_steadily(broker.url, events, PER_S)
            await until_taken(sink, len(events), up_at + DRAIN_S + 60 - time.time())
            parked = len(await daemon.listing("parked", "list"))
            probes = [row for row in daemon.lines("breaker.changed") if row["after"] == "probing"]
            bench.note("outage_probes", len(probes))
            return measure(bench, sink.read(), up_at, len(events), (parked, len(probes)))


def _sick(sink: Sink) -> dict[str, object]:
    breaker = {"failures": FAILURES, "cooldown_s": COOLDOWN_S, "cooldown_max_s": COOLDOWN_S}
    return subscription("sick", sink.url("sick"), breaker=breaker, rate_per_s=RATE_PER_S)


def measure(
    bench: Bench, seen: Sequence[Seen], up_at: float, count: int, others: tuple[int, int]
) -> list[Measured]:
    """Judge the receiver's log; *others* are the parked deliveries and the number of probes."""
    parked, probes = others
    failed = sorted((one for one in seen if one.status == 503), key=lambda one: one.ended)
    taken = {one.id: one for one in seen if one.status == 200}
    opened_at = failed[FAILURES - 1].ended
    late = [one for one in failed if one.began > opened_at + 1]
    back = sorted(one.began for one in seen if one.began >= up_at)
    last = max((one.ended for one in taken.values()), default=up_at)
    bench.note("outage_failed_requests", len(failed))
    bench.note("outage_requests_after_opening_s", [round(one.began - opened_at, 2) for one in late])
    bench.note("outage_rate_at_full_speed_per_s", peak_per_s(back))
    values = {
        "down_requests": len(late),
        "down_attempts_burned": max(0, len(late) - probes),
        "probe_after_recovery_s": round(back[0] - up_at, 2) if back else 1e6,
        "drained_after_s": round(last - up_at, 2),
        "recovery_peak_ratio": round(peak_per_s(back) / RATE_PER_S, 3),
        "down_lost": count - len(taken) - parked,
        "down_parked": parked,
    }
    return [Measured(name=name, value=value, n=count, valid=probes > 0) for name, value in values.items()]


PROOF = Proof("outage", GOALS, prove)
