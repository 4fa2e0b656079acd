"""Measure nine healthy endpoints while the tenth is down, in pairs of legs with and without the outage."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.outage.healthy import HEALTHY, standing
from bench.outage.steady import NEVER_MS, quantile
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.broker.load import EventSpec, make_events
from tests.support.processes.daemon import subscription

PAIRS = 5
LEG_S = 20.0
SICK_PER_S = 100
HEALTHY_PER_S = 10

GOALS = (Goal(name="others_p99_ms", text="≤ 50", unit="ms", n=5),)


def leg_events(leg: str, seconds: float) -> list[EventSpec]:
    """Return a leg's events in the order of publishing: of 19, ten are for the sick endpoint."""
    kinds = ["sick", *(part for name in HEALTHY for part in (name, "sick"))]
    each = round(seconds * HEALTHY_PER_S)
    return [
        event
        for n in range(each)
        for index, kind in enumerate(kinds)
        for event in make_events(f"{leg}_{n}_{index}", 1, kind=f"leg.{kind}")
    ]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Alternate legs; the sick endpoint fails in one of each pair. Its waiting deliveries are cancelled."""
    tenths = {"steady": "/ok/steady", **{f"sick{n}": f"/status/503/sick{n}" for n in range(PAIRS)}}
    p99: dict[str, list[float]] = {"with": [], "without": []}
    missing = 0
    async with standing(bench, tenths) as stand:
        for pair in range(bench.count(PAIRS)):
            for side, tenth in (("without", "steady"), ("with", f"sick{pair}")):
                more = {"breaker": {"cooldown_s": 10}, "events": ["leg.sick"]}
                another = subscription(tenth, stand.sink.url(tenth), **more)
                await stand.daemon.subscribe([*stand.subscriptions, another])
                events = leg_events(f"{side}{pair}", max(5.0, LEG_S * bench.scale))
                wanted = sum(not event.type.endswith("sick") for event in events)
                found = await stand.leg(events, SICK_PER_S + 9 * HEALTHY_PER_S, wanted)
                p99[side].append(quantile(found, 0.99) if len(found) == wanted else NEVER_MS)
                missing += wanted - len(found)
    bench.note("others_p99_ms_without_and_with", [p99["without"], p99["with"]])
    bench.note("others_missing", missing)
    differences = [b - a for a, b in zip(p99["without"], p99["with"], strict=True)]
    alone = statistics.median(p99["without"])
    value = round(statistics.median(differences), 1)
    limit = round(max(0.25 * alone, 50.0), 1)
    return [Measured(name="others_p99_ms", value=value, n=len(differences), at_most=limit, valid=not missing)]


PROOF = Proof("neighbours", GOALS, prove)
