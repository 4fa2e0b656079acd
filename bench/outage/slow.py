"""A 20 s slow endpoint gets every event of a tenant; each event has a healthy target as well."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.outage.healthy import HEALTHY, standing
from bench.outage.steady import NEVER_MS, quantile
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.broker.load import EventSpec, make_events
from tests.support.processes.daemon import subscription

LEG_S = 20.0
BLOCKS = 3
PER_S = 200
SLOW_S = 20

GOALS = (Goal(name="slow_others_p95_ms", text="≤ 30", unit="ms", n=3 * 4_000),)


def leg_events(leg: str, seconds: float) -> list[EventSpec]:
    """Return a leg's events, in turn for the nine healthy endpoints; the slow one wants all of them."""
    count = round(seconds * PER_S)
    return [
        event
        for n in range(count)
        for event in make_events(f"{leg}_{n}", 1, kind=f"leg.{HEALTHY[n % len(HEALTHY)]}")
    ]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Alternate legs with and without the slow endpoint; its waiting deliveries are cancelled after each."""
    slow_ones = {f"slow{n}": f"/slow/slow{n}?s={SLOW_S}" for n in range(BLOCKS)}
    p95: dict[str, list[float]] = {"with": [], "alone": []}
    looked_at = missing = 0
    async with standing(bench, slow_ones) as stand:
        healthy = stand.subscriptions
        for block in range(bench.count(BLOCKS)):
            for side in ("alone", "with"):
                slow = subscription(f"slow{block}", stand.sink.url(f"slow{block}"), timeout_s=30)
                await stand.daemon.subscribe(healthy if side == "alone" else [*healthy, slow])
                events = leg_events(f"{side}{block}", max(3.0, LEG_S * bench.scale))
                found = await stand.leg(events, PER_S, len(events))
                complete = len(found) == len(events)
                p95[side].append(quantile(found, 0.95) if complete else NEVER_MS)
                looked_at += len(found) if side == "with" else 0
                missing += len(events) - len(found)
    bench.note("slow_others_missing", missing)
    bench.note("slow_others_p95_ms_alone_and_with", [p95["alone"], p95["with"]])
    alone, value = (round(statistics.median(p95[side]), 1) for side in ("alone", "with"))
    limit = round(max(1.5 * alone, alone + 30.0), 1)
    return [Measured(name="slow_others_p95_ms", value=value, n=looked_at, at_most=limit, valid=not missing)]


PROOF = Proof("slow", GOALS, prove)
