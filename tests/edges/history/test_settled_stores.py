"""Settled events on SQLite and PostgreSQL: one worker writes them, another one finds them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from consumer.core.history.records import HistoryRow
from consumer.core.history.trace import EventKey
from consumer.core.model import Event
from consumer.edges.history.history_store import Limits
from consumer.edges.history.history_writer import BATCH_ROWS, HistoryWriter
from consumer.edges.history.postgres_history import SETTLED
from consumer.edges.history.settled_lookup import AHEAD_S, SettledLookup
from consumer.edges.history.sqlite_history import FILE_NAME, KEYS_AT_ONCE, settled_query
from consumer.flow.base.history_notes import HistoryNotes
from consumer.flow.observe.observer import Observer
from metrics.series import Series
from tests.support.fakes import RecordingLog
from tests.support.stores import Place
from tests.support.worker import event

NOW = 1_767_225_600.0
WINDOW_S = 60.0


class Worker:
    """One worker's two sides of the history, over connections of their own."""

    def __init__(self, place: Place) -> None:
        self.series = Series(CollectorRegistry())
        observe = Observer(self.series, RecordingLog())
        self.at = NOW
        self.writer = HistoryWriter(place.open_history(), Limits(86_400, 10_000), observe, lambda: self.at)
        self.notes = HistoryNotes(self.writer, lambda: self.at)
        self.lookup = SettledLookup(place.open_settled(), WINDOW_S, observe, lambda: self.at)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Worker]:
        """Answer look-ups meanwhile."""
        task = asyncio.create_task(self.lookup.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def settle(self, *events: Event) -> None:
        """Settle events, and write that."""
        for each in events:
            self.notes.received(each, 1)
            self.notes.settled(each)
        for _ in range(0, 2 * len(events), BATCH_ROWS):
            assert await self.writer.flush()

    def missed(self) -> float:
        """Return how many look-ups were missed."""
        return self.series.registry.get_sample_value("leveret_history_lookups_missed_total") or 0.0


async def test_another_worker_knows_a_settled_event_within_the_window(place: Place) -> None:
    """S1-15: by tenant, type and id, and no longer than the window; clocks may differ a little."""
    first, second = Worker(place), Worker(place)
    async with second.running():
        assert not await second.lookup.knows(event())
        await first.settle(event())

        assert await second.lookup.knows(event())
        for other in (event(id="ord-2"), event(tenant="beta"), event(type="order.paid")):
            assert not await second.lookup.knows(other)
        for at, known in ((59.0, True), (61.0, False), (-AHEAD_S, True), (-AHEAD_S - 1, False)):
            second.at = NOW + at
            assert await second.lookup.knows(event()) is known
    assert second.missed() == 0


async def test_a_worker_that_was_killed_before_the_fan_out_settled_nothing(place: Place) -> None:
    """S1-15, fault 57: its rows of the arrival and of the attempt are written, and the event is owed."""
    first, second = Worker(place), Worker(place)
    first.notes.received(event(), 1)
    first.writer.note(HistoryRow(NOW, "attempt", "ord-1", "acme", "order.created", "sub_1", reason="retry"))
    assert await first.writer.flush()

    async with second.running():
        assert not await second.lookup.knows(event())


async def test_a_restarted_worker_knows_many_events_at_once(place: Place) -> None:
    """S1-15: more than one query can name; those that were not settled are among them."""
    count = KEYS_AT_ONCE + 10
    events = [event(id=f"ord-{n}") for n in range(2 * count)]
    await Worker(place).settle(*events[:count])

    async with Worker(place).running() as again:
        found = await asyncio.gather(*map(again.lookup.knows, events))

    assert found == [True] * count + [False] * count
    assert again.missed() == 0


async def test_a_name_that_rows_contain_escaped_is_not_looked_up(place: Place) -> None:
    """S1-15: the row of one tenant may read as the name of another one."""
    first, second = Worker(place), Worker(place)
    await first.settle(event(tenant="acme\\x1b"), event(tenant="acme\x1b"))

    async with second.running():
        assert await second.lookup.knows(event(tenant="acme\\x1b"))
        assert not await second.lookup.knows(event(tenant="acme\x1b"))


async def test_a_look_up_reads_the_index_of_event_ids(place: Place) -> None:
    """S1-15: its time does not grow with the number of rows."""
    await Worker(place).settle(*(event(id=f"ord-{n}") for n in range(1_000)))
    key = EventKey("ord-7", "acme", "order.created")
    if place.url:
        connection = await asyncpg.connect(place.url)
        names = ([part] for part in key)
        plan = await connection.fetch(f"EXPLAIN {SETTLED}", *names, NOW, NOW)
        await connection.close()
    else:
        with closing(sqlite3.connect(place.home / FILE_NAME)) as file:
            plan = file.execute(f"EXPLAIN QUERY PLAN {settled_query(1)}", (*key, NOW, NOW)).fetchall()

    assert "leveret_history_event" in str([tuple(row) for row in plan])


@pytest.mark.parametrize("keys", [(), (EventKey("ord-1", "acme", "order.created"),)])
async def test_a_look_up_makes_no_history(place: Place, keys: tuple[EventKey, ...]) -> None:
    """A history that does not exist has no settled events."""
    assert not await place.open_settled().settled(keys, 0.0, NOW)
    assert not (place.home / FILE_NAME).exists()
