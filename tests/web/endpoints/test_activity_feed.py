"""The sums of the pages are those of every row, whether the store sums it up or it is read alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest_asyncio

from consumer.core.errors import StoreUnavailable
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Query, StoredStep
from consumer.core.history.sums import Part, Sum
from consumer.edges.history.sqlite_history import SqliteHistory
from consumer.web.activity_feed import BREAK_S, FEW_ROWS, FRESH_S, PART_ROWS, ActivityFeed
from tests.support.system.waiting import shown, until
from tests.support.web import ListLog, StillClock

MANY = FEW_ROWS + 1


class CountingHistory(SqliteHistory):
    """A history that counts rows and sums, and can be away."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, 5.0)
        self.rows_read = 0
        self.parts: list[Part] = []
        self.is_away = False
        self.away_from: int | None = None  #: number of the part that fails, from 1

    async def steps(self, query: Query) -> Sequence[StoredStep]:
        """Count the rows."""
        steps = await super().steps(query)
        self.rows_read += len(steps)
        return steps

    async def sums(self, part: Part) -> Iterator[Sum]:
        """Note the part."""
        if self.is_away or len(self.parts) + 1 == self.away_from:
            raise StoreUnavailable("history.db: the disk is broken")
        self.parts.append(part)
        return await super().sums(part)


class Desk:
    """A feed, and a history that a worker writes."""

    def __init__(self, home: Path) -> None:
        self.clock, self.log, self.history = StillClock(), ListLog(), CountingHistory(home)
        self.feed = ActivityFeed(self.history, self.clock, self.log)
        self._batches = count(1)

    async def write(self, rows: int) -> None:
        """Write attempts of this moment that delivered."""
        row = HistoryRow(self.clock.at, "attempt", "ord-1", "acme", "order.created", "sub_1", number=1)
        delivered = row._replace(kind="ok", status=200, latency_ms=5.0, reason="delivered")
        await self.history.write(next(self._batches), HistoryBatch([delivered] * rows))

    async def day(self, attempts: int) -> None:
        """Wait until the sums contain so many attempts and are complete."""

        async def look() -> list[tuple[int, bool]]:
            activity = await self.feed.current()
            return [(activity.day(self.clock.at, {"sub_1"}).attempts, self.feed.is_complete)]

        await shown(look, lambda found: found == (attempts, True))


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A feed on an empty history."""
    made = Desk(tmp_path / "home")
    yield made
    await made.feed.close()


async def test_few_rows_are_read_one_by_one(desk: Desk) -> None:
    """The first request already gets them; each row is counted once."""
    await desk.day(0)
    await desk.write(250)
    assert (await desk.feed.current()).day(desk.clock.at, {"sub_1"}).attempts == 0  # fresh enough

    desk.clock.advance(FRESH_S)
    await desk.day(250)
    desk.clock.advance(BREAK_S)
    await desk.write(10)
    await desk.day(260)

    assert desk.history.parts == []


async def test_the_store_sums_up_many_rows(desk: Desk) -> None:
    """The first request gets nothing, and knows it; rows that follow are read one by one."""
    await desk.write(MANY)
    assert (await desk.feed.current()).day(desk.clock.at, {"sub_1"}).attempts == 0
    assert not desk.feed.is_complete

    await desk.day(MANY)
    desk.clock.advance(FRESH_S)
    await desk.write(5)
    await desk.day(MANY + 5)

    assert [(each.first, each.last) for each in desk.history.parts] == [(1, MANY)]
    assert desk.history.rows_read == 5


async def test_after_a_break_the_store_sums_up_many_new_rows(desk: Desk) -> None:
    """A page that is opened in the morning does not read the rows of the night one by one."""
    await desk.day(0)
    desk.clock.advance(BREAK_S)
    await desk.write(PART_ROWS + 1)

    await desk.day(PART_ROWS + 1)

    assert [each.first for each in desk.history.parts] == [1, PART_ROWS + 1]
    assert desk.history.rows_read == 0


async def test_a_summing_goes_on_after_an_error(desk: Desk) -> None:
    """Parts that were added stay; the others become smaller, as the store may need too long for them."""
    await desk.write(PART_ROWS + MANY)
    desk.history.away_from = 2
    await desk.feed.current()
    await until(lambda: desk.log.lines)
    assert not desk.feed.is_complete

    desk.history.away_from = None
    desk.clock.advance(FRESH_S)
    await desk.day(PART_ROWS + MANY)

    assert [each.first for each in desk.history.parts] == [1, PART_ROWS + 1]


async def test_a_summing_begins_anew_after_a_break(desk: Desk) -> None:
    """Rows that came meanwhile are summed up too, and not read one by one."""
    await desk.write(PART_ROWS + MANY)
    desk.history.away_from = 2
    await desk.feed.current()
    await until(lambda: desk.log.lines)
    await desk.write(MANY)

    desk.history.away_from = None
    desk.clock.advance(BREAK_S)
    await desk.day(PART_ROWS + 2 * MANY)

    assert [each.first for each in desk.history.parts] == [1, 1, PART_ROWS + 1]
    assert desk.history.rows_read == 0


async def test_parts_become_smaller_but_not_tiny(desk: Desk) -> None:
    """A store that is slow for long is not asked for single rows."""
    await desk.write(3 * FEW_ROWS)
    desk.history.is_away = True

    async def failures() -> Sequence[object]:
        await desk.feed.current()  # once more: the first one may meet a reading that is about to end
        return desk.log.lines

    for _ in range(5):
        desk.log.lines.clear()
        desk.clock.advance(FRESH_S)
        await shown(failures, bool)
    desk.history.is_away = False
    desk.clock.advance(FRESH_S)
    await desk.day(3 * FEW_ROWS)

    assert [each.first for each in desk.history.parts] == [1, FEW_ROWS + 1, 2 * FEW_ROWS + 1]


async def test_a_history_that_is_away_is_summed_up_once_it_is_back(desk: Desk) -> None:
    """Until then the sums are not complete; no row is counted twice."""
    await desk.write(MANY)
    desk.history.is_away = True
    await desk.feed.current()
    await until(lambda: desk.log.lines)
    assert [line["event"] for line in desk.log.lines] == ["api.activity_failed"]
    assert not desk.feed.is_complete

    desk.history.is_away = False
    desk.clock.advance(FRESH_S)
    await desk.day(MANY)
