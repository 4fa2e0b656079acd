"""Connections to the SQLite file: an open one serves further reads, and an old file is never read."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext, suppress
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.errors import StoreUnavailable
from consumer.edges.sqlite_file.file import FILE_NAME
from consumer.edges.store.sqlite import KEPT_S, POOL, SqliteDatabase
from consumer.edges.store.tables import SCHEMA, VERSION_TABLE
from tests.support.system.waiting import until

MANY = 3_001
LOOKS = 3  #: that are cut off at one moment
ANSWERED_S = 5.0  #: longest wait for the driver's thread
ALL = text("SELECT value FROM numbers ORDER BY value")
SLOW = text(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT i FROM n"
)


class Counted(SqliteDatabase):
    """Counts how often the file is opened to read."""

    def __init__(self, folder: Path, busy_timeout_s: float = 5.0) -> None:
        super().__init__(folder, busy_timeout_s)
        self.opened = 0
        event.listen(self._engine.sync_engine, "connect", self._count)

    def _count(self, *_arguments: object) -> None:
        self.opened += 1


def make_file(path: Path, *numbers: int) -> None:
    """Make a file in WAL mode with the mark of the schema and one table."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute(f"CREATE TABLE {VERSION_TABLE} (version_num TEXT)")
        made.execute(f"INSERT INTO {VERSION_TABLE} VALUES (?)", (SCHEMA,))  # noqa: S608 (a constant of ours)
        made.execute("CREATE TABLE numbers (value INTEGER)")
        made.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in numbers])
        made.commit()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Counted]:
    """A file with three numbers."""
    make_file(tmp_path / FILE_NAME, 1, 2, 3)
    made = Counted(tmp_path)
    await made.prepare()
    await made.close()
    made.opened = 0
    yield made
    await made.close()


@asynccontextmanager
async def reading(database: Counted) -> AsyncIterator[AsyncConnection]:
    """Give a connection to the store."""
    async with database.reading() as connection:
        assert connection is not None
        yield connection


async def read(database: Counted) -> list[int]:
    """Return the numbers in the file."""
    async with reading(database) as connection:
        return list(await connection.scalars(ALL))


def handles(folder: Path) -> int:
    """Return how many files in *folder* this process has open."""
    found = 0
    for handle in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the handle of the listing itself
            found += os.readlink(f"/proc/self/fd/{handle}").startswith(str(folder))
    return found


async def test_an_open_file_serves_further_reads(database: Counted) -> None:
    """Reads one after the other open the file once."""
    for _ in range(5):
        assert await read(database) == [1, 2, 3]

    assert database.opened == 1


async def test_readers_take_turns(database: Counted, tmp_path: Path) -> None:
    """More readers than the pool has places for are all served, without further files."""
    assert await asyncio.gather(*[read(database) for _ in range(3 * POOL)]) == [[1, 2, 3]] * 3 * POOL

    assert database.opened <= POOL
    await until(lambda: not handles(tmp_path), "the files are closed")


async def test_a_reader_that_waits_in_vain_learns_why(database: Counted, tmp_path: Path) -> None:
    """It waits no longer than a writer would, and its error is ours."""
    impatient = Counted(tmp_path, 0.01)
    async with AsyncExitStack() as taken:
        for _ in range(POOL):
            connection = await taken.enter_async_context(reading(impatient))
            await connection.scalars(ALL)
        with pytest.raises(StoreUnavailable, match="all connections are in use"):
            await read(impatient)
    assert await read(impatient) == [1, 2, 3]
    await impatient.close()


async def test_an_idle_process_holds_no_file(database: Counted, tmp_path: Path) -> None:
    """The file is closed a short time after the last read."""
    await read(database)
    assert handles(tmp_path)

    await until(lambda: not handles(tmp_path), "the file is closed")


@pytest.mark.parametrize("how", ["replaced", "written over", "gone"])
async def test_an_old_file_is_not_read(database: Counted, tmp_path: Path, how: str) -> None:
    """A file that comes in the place of one that is open counts at the next read."""
    await read(database)
    (tmp_path / "other").mkdir()
    make_file(tmp_path / "other" / FILE_NAME, 7)
    place = tmp_path / FILE_NAME
    match how:
        case "replaced":
            (tmp_path / "other" / FILE_NAME).replace(place)
        case "written over":
            place.write_bytes((tmp_path / "other" / FILE_NAME).read_bytes())
        case _:
            place.unlink()
            with pytest.raises(StoreUnavailable, match="has gone"):
                await read(database)
            return

    assert await read(database) == [7]


async def test_a_reader_sees_one_state(database: Counted, tmp_path: Path) -> None:
    """A change by another process is not seen within a transaction, and is seen by the next reader."""
    async with reading(database) as connection:
        assert list(await connection.scalars(ALL)) == [1, 2, 3]
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
            other.execute("INSERT INTO numbers VALUES (4)")
            other.commit()
        assert list(await connection.scalars(ALL)) == [1, 2, 3]

    assert await read(database) == [1, 2, 3, 4]


async def test_many_rows_come_in_parts(database: Counted, tmp_path: Path) -> None:
    """A stream and a whole read give every row once, and a stream that is left early is closed."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(4, MANY)])
        other.commit()
    assert await read(database) == list(range(1, MANY))

    async with reading(database) as connection:
        parts = (await connection.stream_scalars(ALL)).partitions(700)
        assert [number async for part in parts for number in part] == list(range(1, MANY))

    async with reading(database) as connection:
        await (await connection.stream_scalars(ALL)).fetchmany(1)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("DELETE FROM numbers WHERE value > 1")
        other.commit()
    assert await read(database) == [1]


async def test_a_cancelled_read_harms_no_later_one(database: Counted, tmp_path: Path) -> None:
    """Its file is closed, and is not used again."""
    begun = asyncio.Event()

    async def read_slowly() -> None:
        async with reading(database) as connection:
            begun.set()
            await connection.execute(SLOW)

    reader = asyncio.create_task(read_slowly())
    await begun.wait()
    reader.cancel()
    await asyncio.wait([reader])

    assert reader.cancelled()
    assert await read(database) == [1, 2, 3]
    await until(lambda: not handles(tmp_path), "the files are closed")


async def test_a_file_that_fails_once_is_used_again(database: Counted) -> None:
    """A reader that meets an error, and one that the pool cannot serve, leave no file that closes in use."""
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="no such column"):
            async with reading(database) as connection:
                await connection.execute(text("SELECT other FROM numbers"))

    async with reading(database) as connection:
        await asyncio.sleep(2 * KEPT_S)
        assert list(await connection.scalars(ALL)) == [1, 2, 3]


async def test_a_writer_commits_or_changes_nothing(database: Counted) -> None:
    """What a writer wrote is there after its commit only."""
    for number, error in ((4, None), (5, KeyError)):
        with pytest.raises(error) if error else nullcontext():
            async with database.writing() as connection:
                await connection.execute(text("INSERT INTO numbers VALUES (:number)"), {"number": number})
                if error:
                    raise error

    assert await read(database) == [1, 2, 3, 4]


async def test_writers_at_the_same_time_take_turns(database: Counted) -> None:
    """Each of many writers sees what those before it wrote."""

    async def write() -> None:
        async with database.writing() as connection:
            await connection.execute(text("INSERT INTO numbers SELECT max(value) + 1 FROM numbers"))

    await asyncio.gather(*[write() for _ in range(20)])

    assert await read(database) == list(range(1, 24))


async def cut_off_look(folder: Path, step: int) -> bool:
    """End a look after *step* turns of the loop; return whether the file is closed soon."""
    database = SqliteDatabase(folder, 5.0)

    async def look() -> None:
        async with database.reading() as connection:
            assert connection is not None

    reader = asyncio.create_task(look())
    for _ in range(step):
        await asyncio.sleep(0)
    reader.cancel()
    with suppress(asyncio.CancelledError):
        await reader
    del reader
    await database.close()
    with suppress(AssertionError):
        await until(lambda: handles(folder) == 0, timeout_s=ANSWERED_S)
    return handles(folder) == 0


@pytest.mark.parametrize("step", range(0, 240, 4))
async def test_a_reader_that_ends_while_the_file_is_opened_leaves_it_closed(
    tmp_path: Path, step: int
) -> None:
    """A look with a time limit may end at any moment: in the thread, or in SQLAlchemy's first questions.

    At rare moments the traceback of its end holds the file until it is collected; not three times in a row.
    """
    make_file(tmp_path / FILE_NAME, 1)

    for _ in range(LOOKS):
        if await cut_off_look(tmp_path, step):
            break
        gc.collect()
        await until(lambda: handles(tmp_path) == 0, "the end of the driver's answer")
    else:
        pytest.fail("the file stays open until its connection is collected")
