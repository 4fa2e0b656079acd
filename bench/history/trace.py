"""How long ``leveret trace EVENT_ID`` takes among millions of rows, without the interpreter's start.

Each run opens history and store, finds one event, lays out its timeline, and closes both, in this process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

from bench.history.databases import PostgresNode, SqliteFile, history_of
from bench.prove import Bench, Goal, Measured, Proof
from consumer.cli.history.show import event_lines
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow
from consumer.core.history.status import DeliveryStatus
from consumer.core.history.trace import EventTrace
from consumer.core.message.records import ParkedRow
from consumer.core.subscription.subscription import subscription_id
from consumer.edges.operate.inquiry import opened_inquiry
from consumer.edges.store import open_store
from consumer.edges.store.rows.records import Batch
from consumer.settings import Settings, load_settings
from tests.support.stores import apply

ROWS = {"sqlite": 500_000, "postgres": 5_000_000}
RUNS = 20
TENANTS = 50
SUBSCRIPTIONS = 20  #: of each tenant; half of them want the event
PARKED = 10_000
BATCH_EVENTS = 250
TARGETS = SUBSCRIPTIONS // 2
EVENT_ROWS = 1 + 2 * TARGETS  #: received, and two attempts of each delivery
DAY_S = 86_400.0

GOALS = (Goal(name="trace_ms", text="≤ 200", unit="ms", n=RUNS),)


def name_of(number: int) -> tuple[str, str]:
    """Return id and tenant of an event."""
    return f"evt_{number:08d}", f"t{number % TENANTS:02d}"


def rows_of(number: int, at: float) -> Iterator[HistoryRow]:
    """Yield the rows of an event: each delivery fails once and is delivered."""
    event_id, tenant = name_of(number)
    yield HistoryRow(at, "received", event_id, tenant, "order.created", number=TARGETS)
    for index in range(TARGETS):
        target = subscription_id(tenant, f"s{index:02d}")
        one = HistoryRow(
            at=at + 0.1,
            step="attempt",
            event_id=event_id,
            tenant=tenant,
            type="order.created",
            subscription_id=target,
            delivery_id=f"dlv_{number:012x}{index:04x}",
            number=1,
            kind="http_5xx",
            status=503,
            latency_ms=4.0,
            wait_ms=2_000.0,
            reason="retry",
            answer=b"x" * 512,
            answer_type="application/json",
        )
        yield one
        yield one._replace(at=at + 2.2, number=2, kind="ok", status=200, wait_ms=None, reason="delivered")


def subscriptions() -> list[dict[str, object]]:
    """Return the subscriptions of all tenants."""
    return [
        {
            "tenant": f"t{tenant:02d}",
            "name": f"s{index:02d}",
            "url": f"https://s{index:02d}.example/",
            "events": ["order.*"] if index < TARGETS else ["invoice.*", "refund.#"],
        }
        for tenant in range(TENANTS)
        for index in range(SUBSCRIPTIONS)
    ]


def parked(number: int, now: float) -> ParkedRow:
    """Return a line of the index of parked entries, of an event of long ago."""
    tenant = f"t{number % TENANTS:02d}"
    return ParkedRow(
        id=f"prk_{number:016x}",
        tenant=tenant,
        event_id=f"old_{number:08d}",
        type="order.created",
        subscription_ids=(subscription_id(tenant, "s00"),),
        reason="exhausted",
        detail="HTTP 503",
        code="503",
        attempts=10,
        arrived_at=now - DAY_S,
        parked_at=now - number,
        expires_at=now + DAY_S,
    )


async def fill(database: SqliteFile | PostgresNode, settings: Settings, events: int, entries: int) -> None:
    """Store subscriptions, parked entries, and the rows of *events* within the last day."""
    now = time.time()
    store = open_store(settings)
    await apply(store, *subscriptions())
    lines = [parked(number, now) for number in range(entries)]
    await store.records.write(Batch(parked={line.id: line for line in lines}))
    await store.close()
    history = history_of(database)
    for batch, start in enumerate(range(0, events, BATCH_EVENTS), start=1):
        some = range(start, min(start + BATCH_EVENTS, events))
        rows = [row for number in some for row in rows_of(number, now - DAY_S / 2 + number * 0.1)]
        await history.write(batch, HistoryBatch(rows))
    await history.close()


async def trace_once(settings: Settings, event_id: str) -> Sequence[EventTrace]:
    """Find an event and lay it out, as the command does."""
    now = time.time()
    async with opened_inquiry(settings) as inquiry:
        found = await inquiry.event(event_id, now)
    for each in found:
        for line in event_lines(each, now):
            line.markup  # noqa: B018 (renders the styles)
    return found


def is_right(found: Sequence[EventTrace], event_id: str) -> bool:
    """Return whether a trace is complete: ten deliveries that arrived, and ten subscriptions without one."""
    if [each.key.event_id for each in found] != [event_id]:
        return False
    statuses = [each.state.status for each in found[0].deliveries]
    return (
        statuses == [DeliveryStatus.DELIVERED] * TARGETS
        and len(found[0].misses) == SUBSCRIPTIONS - TARGETS
        and found[0].missing == 0
    )


async def measure(bench: Bench, database: SqliteFile | PostgresNode) -> tuple[list[float], bool]:
    """Fill a database and trace events all over it; return the times in milliseconds."""
    settings = load_settings(dict(database.settings))
    events = -(-bench.count(ROWS[database.name], 2_000) // EVENT_ROWS)
    await fill(database, settings, events, bench.count(PARKED, 50))
    rows = await database.rows()
    bench.note(f"trace_{database.name}_rows", rows)
    await trace_once(settings, "evt_unknown")  # imports the drivers, which belongs to the start
    times_ms, right = [], True
    runs = bench.count(RUNS, least=3)
    for run in range(runs):
        event_id, _ = name_of(run * (events - 1) // (runs - 1))
        began = time.perf_counter()
        found = await trace_once(settings, event_id)
        times_ms.append((time.perf_counter() - began) * 1000)
        right = right and is_right(found, event_id)
    middle, worst = round(statistics.median(times_ms), 1), round(max(times_ms), 1)
    bench.note(f"trace_{database.name}", {"median_ms": middle, "worst_ms": worst})
    return times_ms, right and rows >= events * EVENT_ROWS


async def prove(bench: Bench) -> Sequence[Measured]:
    """Trace on both databases; the figure is the slowest run of all."""
    times_ms: list[float] = []
    valid = True
    for kind in (SqliteFile, PostgresNode):
        async with kind(bench.folder / f"{kind.__name__}-home") as database:
            of_database, right = await measure(bench, database)
        times_ms += of_database
        valid = valid and right
    return [Measured(name="trace_ms", value=round(max(times_ms), 1), n=len(times_ms), valid=valid)]


PROOF = Proof("history_trace", GOALS, prove)
