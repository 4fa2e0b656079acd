"""The store is away for a minute under load: every event is delivered, and the counter is exact.

The receiver's record shows which rows there have to be. All endpoints answer at once, so there are no other
rows: one of the arrival of each event, and one of each attempt.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence

import asyncpg

from bench.broker import Broker
from bench.history.databases import PostgresNode, SqliteFile
from bench.prove import Bench, Goal, Measured, Proof
from bench.sink import Sink
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.history.history_writer import ROWS_MAX
from tests.support.broker.load import EventSpec, make_events, publish, wait_empty
from tests.support.processes.children import fetch
from tests.support.processes.daemon import NO_BREAKER, Daemon, subscription

AWAY_S = 60.0
EVENTS = 9_000  #: of which two thirds come while the store is away: more rows than there is room for
TARGETS = {f"e{n}": f"/ok/e{n}" for n in range(4)}
END_S = 240.0
SETTINGS = {
    "LEVERET_SENDING__CONCURRENCY": "256",
    "LEVERET_SENDING__QUICK_LATENCY_S": "30",
    "LEVERET_SENDING__QUICK_WAIT_S": "5",
}
DROPPED = re.compile(r'^leveret_history_dropped_total\{reason="\w+"\} (\S+)$', re.MULTILINE)
DEFERRED = re.compile(r'^leveret_deferrals_total\{reason="\w+"\} (\S+)$', re.MULTILINE)

GOALS = (
    Goal(name="store_gone_undelivered", text="0", unit="pairs", n=5_000),
    Goal(name="unrecorded_error", text="0", unit="rows", n=5_000),
)

Key = tuple[str, str, str]


def total(daemon: Daemon, of: re.Pattern[str]) -> int:
    """Return the sum of a series of the daemon over its labels."""
    text = fetch(f"http://{daemon.listen}/metrics").decode()
    return sum(int(float(value)) for value in of.findall(text))


async def publish_slowly(url: str, events: Sequence[EventSpec], exchange: str, over_s: float) -> None:
    """Publish *events* in sixty parts over *over_s* seconds."""
    size = max(len(events) // 60, 1)
    for start in range(0, len(events), size):
        await publish(url, events[start : start + size], exchange)
        await asyncio.sleep(over_s * size / len(events))


async def wait_rows(database: SqliteFile | PostgresNode, least: int) -> None:
    """Return once *least* rows are there."""
    async with asyncio.timeout(END_S):
        while True:
            try:
                if await database.rows() >= least:
                    return
            except (sqlite3.Error, asyncpg.PostgresError):  # no table yet
                pass
            await asyncio.sleep(0.5)


async def wait_quiet(database: SqliteFile | PostgresNode) -> Counter[Key]:
    """Return the rows once two counts two seconds apart are the same."""
    rows = await database.counted()
    while True:
        await asyncio.sleep(2)
        later = await database.counted()
        if later == rows:
            return rows
        rows = later


def expected(sink: Sink, events: Sequence[EventSpec]) -> tuple[Counter[Key], int]:
    """Return the rows that there have to be, and how many pairs were never delivered."""
    ids = {event.id for event in events}
    wanted: Counter[Key] = Counter(("received", event.id, "") for event in events)
    taken = set()
    for one in sink.read():
        if one.id in ids:
            wanted["attempt", one.id, subscription_id("t00", one.path)] += 1
            taken.add((one.id, one.path))
    return wanted, len(events) * len(TARGETS) - len(taken)


async def run_leg(
    bench: Bench, broker: Broker, sink: Sink, database: SqliteFile | PostgresNode
) -> tuple[int, int, int, bool]:
    """Take the store away under load and give it back.

    Returns:
        Pairs that were not delivered, rows by which the counter is wrong, events, and whether the leg is
        valid: rows were dropped, and no delivery was deferred.
    """
    settings = SETTINGS | {"LEVERET_TOPOLOGY__PREFIX": database.name} | dict(database.settings)
    exchange = f"{database.name}.events"
    count = bench.count(EVENTS, 30)
    before, away, after = (
        make_events(f"gone_{database.name}_{part}", size, size=300)
        for part, size in (("a", count // 6), ("b", count * 2 // 3), ("c", count // 6))
    )
    async with Daemon(bench.folder, broker.url, settings, database.name) as daemon:
        await daemon.subscribe(
            [subscription(n, sink.url(n), breaker=NO_BREAKER, concurrency=256) for n in TARGETS]
        )
        await daemon.start()
        await publish(broker.url, before, exchange)
        await wait_rows(database, len(before))
        await database.take()
        bench.say(f"{database.name}: the store is away")
        away_s = max(AWAY_S * bench.scale, 8.0)
        publishing = asyncio.create_task(publish_slowly(broker.url, away, exchange, away_s * 0.8))
        await asyncio.sleep(away_s)
        await publishing
        await database.give()
        bench.say(f"{database.name}: the store is back")
        await publish(broker.url, after, exchange)
        empty = await wait_empty(broker.management, timeout_s=END_S)
        rows = await wait_quiet(database)
        dropped, deferred = total(daemon, DROPPED), total(daemon, DEFERRED)
    events = [*before, *away, *after]
    wanted, undelivered = expected(sink, events)
    missing, extra = (wanted - rows).total(), (rows - wanted).total()
    found = {"counted": dropped, "missing": missing, "extra": extra, "deferred": deferred}
    bench.note(f"store_gone_{database.name}", found)
    enough = dropped > 0 or wanted.total() < 2 * ROWS_MAX
    return undelivered, abs(dropped - missing) + extra, len(events), empty and enough and not deferred


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run both legs; the figures are sums."""
    legs = []
    async with Broker(bench) as broker, Sink(bench.folder, TARGETS) as sink:
        for kind in (SqliteFile, PostgresNode):
            async with kind(bench.folder / f"{kind.__name__}-home") as database:
                legs.append(await run_leg(bench, broker, sink, database))
    n, valid = min(leg[2] for leg in legs), all(leg[3] for leg in legs)
    return [
        Measured(name="store_gone_undelivered", value=sum(leg[0] for leg in legs), n=n, valid=valid),
        Measured(name="unrecorded_error", value=sum(leg[1] for leg in legs), n=n, valid=valid),
    ]


PROOF = Proof("store_gone", GOALS, prove)
