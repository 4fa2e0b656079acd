"""A million old rows are deleted while new ones are written: how long the loop and the writes stop.

The daemon's own writer runs on each database, in one loop with a task that notes rows steadily and one that
watches the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import uvloop
from prometheus_client import CollectorRegistry

from bench.core.silent_log import SilentLog
from bench.history.databases import PostgresNode, SqliteFile, history_of
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Query, StoredStep
from consumer.edges.history.history_store import HistoryStore, Limits
from consumer.edges.history.history_writer import HistoryWriter
from consumer.flow.observe.observer import Observer
from metrics.series import Series

ROWS = 1_000_000
BATCH = 1_000
DAY_S = 86_400.0
LIMITS = Limits(max_age_s=DAY_S, max_rows=100_000_000)
ROWS_PER_S = 500  #: that are noted meanwhile
TICK_S = 0.005
END_S = 1_200.0

GOALS = (
    Goal(name="retention_loop_ms", text="≤ 50", unit="ms", n=1),
    Goal(name="retention_write_ms", text="≤ 500", unit="ms", n=1),
)


class Watched:
    """A history that notes how long it took from one written batch to the next. Has the store's protocol."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self.gaps_s: list[float] = []
        self.last = 0.0  #: monotonic seconds of the last write; 0 before the first
        self.trimmed = asyncio.Event()  #: nothing is left to delete
        self.deleting_s = 0.0

    async def write(self, number: int, batch: HistoryBatch) -> None:
        """Write, and note the time since the last write."""
        await self._store.write(number, batch)
        now = time.monotonic()
        if self.last:
            self.gaps_s.append(now - self.last)
        self.last = now

    async def trim(self, limits: Limits, now: float) -> bool:
        """Delete some rows."""
        began = time.monotonic()
        more = await self._store.trim(limits, now)
        self.deleting_s += time.monotonic() - began
        if not more:
            self.trimmed.set()
        return more

    async def steps(self, query: Query) -> Sequence[StoredStep]:
        """Return rows."""
        return await self._store.steps(query)

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()


@dataclass(slots=True)
class Stops:
    """The longest stops of one leg."""

    loop_s: float = 0.0
    write_s: float = 0.0
    took_s: float = 0.0
    left: int = 0  #: old rows that were not deleted
    lags_s: list[float] = field(default_factory=list)


def old_rows(count: int) -> list[HistoryRow]:
    """Return rows of two days ago, with answers, of many events."""
    at = time.time() - 2 * DAY_S
    return [
        HistoryRow(
            at=at + n * 0.01,
            step="attempt",
            event_id=f"old_{n * 7_919 % 1_000_003:08d}",
            tenant=f"t{n % 50:02d}",
            type="order.created",
            subscription_id=f"sub_{n % 200:016x}",
            delivery_id=f"dlv_{n:016x}" if n % 10 == 0 else "",
            number=1,
            kind="http_5xx" if n % 10 == 0 else "ok",
            status=503 if n % 10 == 0 else 200,
            latency_ms=4.0,
            reason="retry" if n % 10 == 0 else "delivered",
            answer=b"x" * 512,
            answer_type="application/json",
        )
        for n in range(count)
    ]


async def watch_loop(stops: Stops) -> None:
    """Note by how much a short sleep was late, for ever."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(TICK_S)
        stops.loop_s = max(stops.loop_s, time.monotonic() - began - TICK_S)


async def note_rows(writer: HistoryWriter) -> None:
    """Note rows of now, for ever."""
    fresh = old_rows(1)[0]
    while True:
        writer.note(fresh._replace(at=time.time()))
        await asyncio.sleep(1 / ROWS_PER_S)


async def run_leg(bench: Bench, database: SqliteFile | PostgresNode) -> Stops:
    """Fill the history, delete all of it, and return the longest stops."""
    count, stops = bench.count(ROWS, 5_000), Stops()
    if isinstance(database, PostgresNode):
        first = history_of(database)
        await first.write(1, HistoryBatch(old_rows(1)))  # makes the tables
        await first.close()
    store = Watched(history_of(database))
    rows = old_rows(count)
    for number, start in enumerate(range(0, count, BATCH), start=1):
        await store.write(number, HistoryBatch(rows[start : start + BATCH]))
    del rows
    bench.say(f"{database.name}: {count} rows are there")
    store.gaps_s.clear()
    store.last = 0.0
    observe = Observer(Series(CollectorRegistry()), SilentLog())
    writer = HistoryWriter(store, LIMITS, observe, time.time)
    began = time.monotonic()
    tasks = [asyncio.create_task(step) for step in (writer.run(), watch_loop(stops), note_rows(writer))]
    try:
        async with asyncio.timeout(END_S):
            await store.trimmed.wait()
        stops.took_s = time.monotonic() - began
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    stops.write_s = max(store.gaps_s)
    left = await store.steps(Query(limit=10, event_id="old_00000000"))
    stops.left = sum(step.row.at < time.time() - DAY_S for step in left)
    await writer.finish()
    bench.note(
        f"retention_{database.name}",
        {
            "loop_ms": round(stops.loop_s * 1000, 1),
            "write_ms": round(stops.write_s * 1000, 1),
            "took_s": round(stops.took_s, 1),
            "rows_per_s": round(count / stops.took_s),
            "deleting_share": round(store.deleting_s / stops.took_s, 2),
        },
    )
    return stops


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run both legs in the daemon's kind of loop, in a thread; the figures are the worse ones."""
    legs: list[Stops] = []

    async def run() -> None:
        for kind in (SqliteFile, PostgresNode):
            async with kind(bench.folder / f"{kind.__name__}-home") as database:
                legs.append(await run_leg(bench, database))

    await asyncio.to_thread(uvloop.run, run())
    valid = all(leg.left == 0 for leg in legs)
    loop_s, write_s = max(leg.loop_s for leg in legs), max(leg.write_s for leg in legs)
    return [
        Measured(name="retention_loop_ms", value=round(loop_s * 1000, 1), n=len(legs), valid=valid),
        Measured(name="retention_write_ms", value=round(write_s * 1000, 1), n=len(legs), valid=valid),
    ]


PROOF = Proof("history_retention", GOALS, prove)
