"""Each row of an attempt against the receiver's own record of the same request.

Two workers share one database and deliver to endpoints that fail 30 % of all attempts; one worker is killed
in the middle. Rows that were still in its memory are lost with it: requests whose row is missing are counted
apart if they came in the last seconds before the kill.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.broker import Broker
from bench.history.databases import PostgresNode, SqliteFile, history_of
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Seen, Sink
from consumer.core.history.records import LIMIT_MAX, HistoryRow, Query, Step
from consumer.core.subscription.subscription import subscription_id
from tests.support.broker.load import make_events, publish, wait_empty
from tests.support.processes.daemon import NO_BREAKER, Daemon, retry, subscription

ATTEMPTS = 20_000
KILLED = 5_000  #: more rows than the kill takes from memory
SHARE = 0.3
TARGETS = {f"flaky{n}": f"/flaky/flaky{n}?share={SHARE}" for n in range(3)}
LOST_S = (
    3.0  #: a row is in memory for a quarter second, and as long as the batch before it takes to be written
)
CLOCK_S = 0.05  #: both clocks are of one machine; a request is read after it was begun
END_S = 240.0
POLICY = {"max_attempts": 20, "base_s": 0.25, "multiplier": 1, "max_s": 0.25, "jitter": 0}
SETTINGS = {
    "LEVERET_TOPOLOGY__RUNGS_S": "[0.25, 0.5, 1.0, 2.0]",
    "LEVERET_SENDING__CONCURRENCY": "64",
}

GOALS = (Goal(name="history_wrong", text="0", unit="rows", n=ATTEMPTS),)

Pair = tuple[str, str]


@dataclass(slots=True)
class Verdicts:
    """What the comparison found."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    lost: int = 0  #: requests whose row was lost with the kill


def compare(
    rows: Mapping[Pair, Sequence[HistoryRow]], seen: Mapping[Pair, Sequence[Seen]], kill: float
) -> Verdicts:
    """Match each row with one request of its pair: same status, and begun within the row's time.

    Args:
        rows: Rows of attempts by event id and name of the subscription.
        seen: Requests that the receiver read, by the same.
        kill: Unix seconds when one worker was killed.
    """
    found = Verdicts()
    for pair in rows.keys() | seen.keys():
        requests = sorted(seen.get(pair, ()), key=lambda one: one.began)
        broken = any(kill - LOST_S <= one.began <= kill + LOST_S for one in requests)
        left = list(requests)
        for row in sorted(rows.get(pair, ()), key=lambda one: one.at):
            match = next((one for one in left if _is_of(row, one)), None)
            if match is None:
                found.wrong.append(f"{pair}: no request is like {row}")
                continue
            left.remove(match)
            if row.number == match.attempt or (broken and row.number < match.attempt):
                found.right += 1
            else:
                found.wrong.append(f"{pair}: number {row.number} is {match.attempt} at the receiver")
        for one in left:
            if kill - LOST_S <= one.began <= kill + CLOCK_S or one.status == 0:
                found.lost += 1
            else:
                found.wrong.append(f"{pair}: no row of {one}")
    return found


def _is_of(row: HistoryRow, one: Seen) -> bool:
    kind = "ok" if 200 <= one.status < 300 else f"http_{one.status // 100}xx"
    within = row.at - CLOCK_S <= one.began <= row.at + (row.latency_ms or 0) / 1000 + CLOCK_S
    return (row.status, row.kind) == (one.status, kind) and within


async def attempts_of(database: SqliteFile | PostgresNode) -> Mapping[Pair, Sequence[HistoryRow]]:
    """Return every row of an attempt, by event id and name of the subscription."""
    names = {subscription_id("t00", name): name for name in TARGETS}
    found: dict[Pair, list[HistoryRow]] = defaultdict(list)
    history, after = history_of(database), 0
    while steps := await history.steps(Query(after=after, limit=LIMIT_MAX)):
        for step in steps:
            if step.row.step == Step.ATTEMPT:
                found[step.row.event_id, names[step.row.subscription_id]].append(step.row)
        after = steps[-1].seq
    await history.close()
    return found


async def run_leg(bench: Bench, broker: Broker, sink: Sink, database: SqliteFile | PostgresNode) -> Verdicts:
    """Deliver with two workers, kill one, and compare."""
    prefix = {"LEVERET_TOPOLOGY__PREFIX": database.name}
    settings = SETTINGS | prefix | dict(database.settings)
    wanted = int((ATTEMPTS + KILLED) * (1 - SHARE)) // len(TARGETS)
    events = make_events(f"his_{database.name}", bench.count(wanted, 30), size=300)
    async with (
        Daemon(bench.folder, broker.url, settings, f"{database.name}-one") as one,
        Daemon(bench.folder, broker.url, settings, f"{database.name}-two") as two,
    ):
        await one.subscribe(
            [
                subscription(name, sink.url(name), retry=retry(**POLICY), breaker=NO_BREAKER, concurrency=64)
                for name in TARGETS
            ]
        )
        await one.start()
        await two.start()
        already = await sink.answered()
        load = asyncio.create_task(publish(broker.url, events, f"{database.name}.events"))
        await sink.until_answered(already + len(events), END_S)  # of more than four times as many
        kill = await two.kill()
        await load
        empty = await wait_empty(broker.management, keep=[f"{database.name}.parked"], timeout_s=END_S)
        one.terminate()
        ended = await one.wait_exit(40)
    seen: dict[Pair, list[Seen]] = defaultdict(list)
    ids = {event.id for event in events}
    for request in await asyncio.to_thread(sink.read):
        if request.id in ids:
            seen[request.id, request.path].append(request)
    verdicts = compare(await attempts_of(database), seen, kill)
    numbers = Counter(min(one.attempt, 5) for requests in seen.values() for one in requests)
    bench.note(
        f"history_{database.name}",
        {"right": verdicts.right, "lost_with_the_kill": verdicts.lost, "by_number": dict(numbers)},
    )
    if not empty or ended != 0:
        verdicts.wrong.append(f"the leg did not end: queues empty {empty}, exit code {ended}")
    return verdicts


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run both legs; the figure is the sum of what is wrong, over the attempts of the smaller leg."""
    legs = []
    async with Broker(bench) as broker, Sink(bench.folder, TARGETS) as sink:
        for kind in (SqliteFile, PostgresNode):
            async with kind(bench.folder / f"{kind.__name__}-home") as database:
                legs.append(await run_leg(bench, broker, sink, database))
    wrong = [text for leg in legs for text in leg.wrong]
    bench.note("history_wrong_examples", wrong[:10])
    return [Measured(name="history_wrong", value=len(wrong), n=min(leg.right for leg in legs))]


PROOF = Proof("history_wrong", GOALS, prove)
