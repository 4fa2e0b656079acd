"""Retries come at the times of the policy: never early, seldom late, spread evenly over the jitter.

The receiver holds the first requests of 500 deliveries and fails them all at once: the worst case for
coming back together. Per delivery, the wait is the second request's start minus the first answer's end,
both on the receiver's clock. Evenness is judged by the due times that the daemon logged (`wait_s`): 500
requests do not fit into a window of 0.2 s, so arrival times show the sender's rate instead. The log is
held against the receiver: a second request before its logged due time makes the figure invalid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.broker import Broker
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from consumer.core.subscription.subscription import subscription_id
from tests.support.broker.load import make_events, publish
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

DELIVERIES = 500
RATE_EVENTS = 2_000
JITTER = 0.1
SLACK_S = 0.3
ROUNDING_S = 0.002  #: the daemon logs whole milliseconds
SETTINGS = {"LEVERET_SENDING__CONCURRENCY": "700"}

GOALS = (
    Goal(name="retry_early", text="0", unit="deliveries", n=DELIVERIES),
    Goal(name="retry_late_share", text="≤ 0.05", unit="ratio", n=DELIVERIES),
    Goal(name="retry_spread_ks", text="≤ 0.15", unit="distance", n=DELIVERIES),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One wait: its policy, and the bounds that it may come back within."""

    name: str
    base_s: float
    floor_s: float
    ceiling_s: float
    retry_after: str = ""

    def target(self, count: int) -> str:
        """Return the receiver's path: hold *count* requests, fail them together, then take all."""
        header = f"&retry_after={self.retry_after}" if self.retry_after else ""
        return f"/hold/{self.name}?n={count}&status=503{header}"


CASES = (
    Case("base1", 1.0, 1.0 * (1 - JITTER), 1.0 * (1 + JITTER)),
    Case("base2", 2.0, 2.0 * (1 - JITTER), 2.0 * (1 + JITTER)),
    Case("after7", 1.0, 7.0, 7.0, retry_after="7"),
)


def distance_to_uniform(values: Sequence[float], low: float, high: float) -> float:
    """Return the Kolmogorov-Smirnov distance of *values* to the uniform distribution on [low, high]."""
    worst = 0.0
    ordered = sorted(values)
    for index, value in enumerate(ordered):
        expected = min(1.0, max(0.0, (value - low) / (high - low)))
        worst = max(worst, abs(expected - index / len(ordered)), abs(expected - (index + 1) / len(ordered)))
    return worst


def waits_of(seen: Sequence[Seen], path: str) -> dict[str, float]:
    """Return each delivery's wait: second request's start minus first answer's end, in seconds."""
    by_id: dict[str, list[Seen]] = defaultdict(list)
    for one in seen:
        if one.path == path:
            by_id[one.id].append(one)
    waits = {}
    for webhook_id, group in by_id.items():
        group.sort(key=lambda one: one.began)
        if len(group) >= 2 and group[0].status:
            waits[webhook_id] = group[1].began - group[0].ended
    return waits


def logged_waits(daemon: Daemon, name: str) -> dict[str, float]:
    """Return the wait that the daemon chose after each first attempt, from its log."""
    ours = subscription_id("t00", name)
    return {
        str(row["event_id"]): float(str(row["wait_s"]))
        for row in daemon.lines("delivery.attempted")
        if row["subscription_id"] == ours and row["attempt"] == 1 and row["verdict"] == "retry"
    }


async def run_case(bench: Bench, case: Case, sink: Sink, url: str, count: int) -> None:
    """Publish one case's events and wait until every second request was answered."""
    before = await sink.answered()
    await publish(url, make_events(f"tim_{case.name}", count, kind=f"timing.{case.name}"))
    if not await sink.until_answered(before + 2 * count, 180):
        bench.say(f"{case.name}: {await sink.answered() - before} of {2 * count} requests came")


async def prove(bench: Bench) -> Sequence[Measured]:
    """Measure the rate of this machine, then the three waits."""
    count, rate_count = bench.count(DELIVERIES, 40), bench.count(RATE_EVENTS, 100)
    targets = {"rate": "/ok/rate"} | {case.name: case.target(count) for case in CASES}
    async with (
        Broker(bench) as broker,
        Sink(bench.folder, targets) as sink,
        Daemon(bench.folder, broker.url, SETTINGS) as daemon,
    ):
        await daemon.subscribe(
            [
                subscription(
                    name,
                    sink.url(name),
                    events=[f"timing.{name}"],
                    retry=retry(base_s=base_s, jitter=JITTER),
                    breaker=NO_BREAKER,
                    concurrency=600,
                )
                for name, base_s in [("rate", 1.0), *((case.name, case.base_s) for case in CASES)]
            ]
        )
        await daemon.start()
        await publish(broker.url, make_events("tim_rate", rate_count, kind="timing.rate"))
        await sink.until_answered(rate_count, 60)
        for case in CASES:
            await run_case(bench, case, sink, broker.url, count)
        seen = sink.read()
        logged = {case.name: logged_waits(daemon, case.name) for case in CASES}
    return measure(bench, seen, logged, count)


def rate_of(seen: Sequence[Seen]) -> float:
    """Return requests a second of the healthy path."""
    began = sorted(one.began for one in seen if one.path == "rate")
    return (len(began) - 1) / max(0.001, began[-1] - began[0])


def measure(
    bench: Bench, seen: Sequence[Seen], logged: Mapping[str, Mapping[str, float]], count: int
) -> list[Measured]:
    """Judge the waits of all cases; the worst case is the figure."""
    allowance = max(SLACK_S, count / rate_of(seen))
    bench.note("retry_rate_per_s", round(rate_of(seen), 1))
    early, shares, distances, counts = 0, [0.0], [0.0], []
    honest = True
    for case in CASES:
        waits, due = waits_of(seen, case.name), logged[case.name]
        counts.append(len(waits))
        early += sum(wait < case.floor_s for wait in waits.values())
        late = sum(wait > case.ceiling_s + allowance for wait in waits.values())
        shares.append(late / max(1, len(waits)))
        before_due = sum(wait < due.get(name, 0.0) - ROUNDING_S for name, wait in waits.items())
        honest = honest and before_due == 0 and set(due) >= set(waits)
        ordered = sorted(wait - case.ceiling_s for wait in waits.values()) or [0.0]
        bench.note(
            f"retry_{case.name}_past_ceiling_p50_p95_max_s",
            [round(ordered[min(len(ordered) - 1, int(len(ordered) * q))], 3) for q in (0.5, 0.95, 1.0)],
        )
        if not case.retry_after:
            distances.append(distance_to_uniform(list(due.values()) or [0.0], case.floor_s, case.ceiling_s))
    bench.note("retry_before_logged_due", not honest)
    bench.note("retry_late_shares", shares[1:])
    bench.note("retry_spread_distances", distances[1:])
    n = min(counts)
    return [
        Measured(name="retry_early", value=early, n=n),
        Measured(name="retry_late_share", value=max(shares), n=n),
        Measured(name="retry_spread_ks", value=max(distances), n=n, valid=honest),
    ]


PROOF = Proof("timing", GOALS, prove)
