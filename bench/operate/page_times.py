"""p95 of the server time of overview, endpoints and parked, with 1,000,000 attempts of 1,000 subscriptions.

PostgreSQL has the rows, and 10,000 parked entries; a worker and ``leveret serve`` run. The time is the one
that the server logs of each request; they are sent one after the other, as by a browser.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence

import asyncpg

from bench.broker import Broker
from bench.history.databases import PostgresNode, history_of
from bench.history.trace import BATCH_EVENTS, DAY_S, EVENT_ROWS, parked, rows_of, subscriptions
from bench.operate.ground import UNLIMITED
from bench.operate.visitor import visiting
from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.history.batch import HistoryBatch
from consumer.edges.store import opened_store
from consumer.edges.store.rows.records import Batch
from consumer.settings import load_settings
from consumer.web.pages import urls
from tests.support.processes.daemon import Daemon
from tests.support.stores import apply
from tests.support.system.api import ServedApi, serving
from tests.support.system.waiting import until

ATTEMPTS = 1_000_000
PARKED = 10_000
RUNS = 100
PAGES = {"overview": urls.OVERVIEW, "endpoints": urls.ENDPOINTS, "parked": urls.PARKED}

GOALS = (Goal(name="page_ms", text="≤ 150", unit="ms", n=RUNS * len(PAGES)),)


async def fill(database: PostgresNode, events: int, entries: int) -> None:
    """Store subscriptions, parked entries, and the rows of *events* that are spread over the last day."""
    now = time.time()
    async with opened_store(load_settings(dict(database.settings))) as store:
        await apply(store, *subscriptions())
        lines = [parked(number, now) for number in range(entries)]
        await store.records.write(Batch(parked={line.id: line for line in lines}))
    history, step_s = history_of(database), DAY_S / events
    for batch, start in enumerate(range(0, events, BATCH_EVENTS), start=1):
        some = range(start, min(start + BATCH_EVENTS, events))
        rows = [row for number in some for row in rows_of(number, now - (events - number) * step_s)]
        await history.write(batch, HistoryBatch(rows))
    await history.close()
    connection = await asyncpg.connect(database.url)
    await connection.execute("ANALYZE")  # as autovacuum does within a minute
    await connection.close()


async def ask(api: ServedApi, token: str, runs: int) -> None:
    """Get each page *runs* times.

    Raises:
        RuntimeError: a page was refused.
    """
    async with visiting(api, token) as visitor:
        for _ in range(runs):
            for path in PAGES.values():
                answer = await visitor.get(path)
                if answer.status_code != 200:
                    raise RuntimeError(f"{path} answered {answer.status_code}")


def times_ms(api: ServedApi, path: str) -> list[float]:
    """Return the server times of a page from its log, in milliseconds."""
    lines = [json.loads(line) for line in api.log.read_text().splitlines() if '"api.requested"' in line]
    return [1000 * line["duration_s"] for line in lines if (line["path"], line["status"]) == (path, 200)]


async def prove(bench: Bench) -> Sequence[Measured]:
    """Measure each page; the figure is the slowest one's p95."""
    runs = bench.count(RUNS, least=5)
    events = -(-bench.count(ATTEMPTS, 2_000) // (EVENT_ROWS - 1))
    async with Broker(bench) as broker, PostgresNode(bench.folder / "pages-home") as database:
        settings = {**dict(database.settings), **UNLIMITED}
        await fill(database, events, bench.count(PARKED, 50))
        bench.note("page_ms_rows", await database.rows())
        async with Daemon(bench.folder, broker.url, settings) as daemon:
            await daemon.start()
            async with serving(daemon) as api:
                began = time.monotonic()
                await ask(api, await api.token("--scope", "admin"), runs)
                bench.say(f"{runs} times each page in {time.monotonic() - began:.1f} s")
                # the server logs a request after its answer
                await until(
                    lambda: all(len(times_ms(api, path)) >= runs for path in PAGES.values()), "the log"
                )
                found = {name: sorted(times_ms(api, path)) for name, path in PAGES.items()}
    p95 = {name: times[int(0.95 * (len(times) - 1))] for name, times in found.items()}
    shown = {n: {"median": round(statistics.median(t), 1), "p95": round(p95[n], 1)} for n, t in found.items()}
    bench.note("page_ms_each", shown)
    count = sum(map(len, found.values()))
    return [Measured(name="page_ms", value=round(max(p95.values()), 1), n=count)]


PROOF = Proof("operate_page_times", GOALS, prove)
