"""Connections to the SQLite file: few steps in a thread, and no old file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import NullPool, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import create_async_engine

from consumer.edges.sqlite_file.connection import ROWS_AT_ONCE, SqliteConnections
from consumer.edges.sqlite_file.file import FILE_NAME, SqliteFile
from tests.support.system.waiting import until

T = TypeVar("T")
MANY = 3 * ROWS_AT_ONCE + 1
ALL = text("SELECT value FROM numbers ORDER BY value")


class Counted(SqliteConnections):
    """Counts the steps in threads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SqliteFile(folder), 5.0)
        self.steps = 0
        self.engine = create_async_engine(
            "sqlite+aiosqlite://", async_creator=self.reader, poolclass=NullPool
        )

    async def in_thread(self, step: Callable[[], T]) -> T:
        """Count one."""
        self.steps += 1
        return await super().in_thread(step)


def make_file(path: Path, *numbers: int) -> None:
    """Make a file in WAL mode with one table."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE numbers (value INTEGER)")
        made.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in numbers])
        made.commit()


@pytest.fixture
async def connections(tmp_path: Path) -> AsyncIterator[Counted]:
    """A file with three numbers."""
    make_file(tmp_path / FILE_NAME, 1, 2, 3)
    made = Counted(tmp_path)
    await read(made)  # SQLAlchemy asks the first connection some questions
    await made.close()
    made.steps = 0
    yield made
    await made.close()


async def read(connections: Counted) -> list[int]:
    """Return the numbers in the file."""
    async with connections.engine.connect() as connection:
        return list(await connection.scalars(ALL))


def handles(folder: Path) -> int:
    """Return how many files in *folder* this process has open."""
    found = 0
    for handle in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the handle of the listing itself
            found += os.readlink(f"/proc/self/fd/{handle}").startswith(str(folder))
    return found


async def test_a_read_takes_one_step_in_a_thread(connections: Counted) -> None:
    """To open the file, to begin, to run and to fetch is one step; to give the file back is none."""
    assert await read(connections) == [1, 2, 3]
    assert connections.steps == 1
    assert await read(connections) == [1, 2, 3]
    assert connections.steps == 2


async def test_an_idle_process_holds_no_file(connections: Counted, tmp_path: Path) -> None:
    """The file is closed a short time after the last read."""
    await read(connections)
    assert handles(tmp_path)

    await until(lambda: not handles(tmp_path), "the file is closed")


@pytest.mark.parametrize("how", ["replaced", "written over", "gone"])
async def test_an_old_file_is_not_read(connections: Counted, tmp_path: Path, how: str) -> None:
    """A file that comes in the place of one that is open counts at the next read."""
    await read(connections)
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
            with pytest.raises(OperationalError, match="unable to open"):
                await read(connections)
            return

    assert await read(connections) == [7]


async def test_a_reader_sees_one_state(connections: Counted, tmp_path: Path) -> None:
    """A change by another process is not seen within a transaction, and is seen by the next reader."""
    async with connections.engine.connect() as connection:
        assert list(await connection.scalars(ALL)) == [1, 2, 3]
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
            other.execute("INSERT INTO numbers VALUES (4)")
            other.commit()
        assert list(await connection.scalars(ALL)) == [1, 2, 3]

    assert await read(connections) == [1, 2, 3, 4]


async def test_many_rows_come_in_parts(connections: Counted, tmp_path: Path) -> None:
    """A stream and a whole read give every row once, and a stream that is left early is closed."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(4, MANY)])
        other.commit()
    assert await read(connections) == list(range(1, MANY))

    async with connections.engine.connect() as connection:
        parts = (await connection.stream_scalars(ALL)).partitions(700)
        assert [number async for part in parts for number in part] == list(range(1, MANY))

    async with connections.engine.connect() as connection:
        await (await connection.stream_scalars(ALL)).fetchmany(1)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("DELETE FROM numbers WHERE value > 1")
        other.commit()
    assert await read(connections) == [1]


async def test_a_cancelled_read_harms_no_later_one(connections: Counted, tmp_path: Path) -> None:
    """Its file is closed once its step has ended, and is not used again."""
    slow = text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT i FROM n"
    )

    async def read_slowly() -> None:
        async with connections.engine.connect() as connection:
            await connection.execute(slow)

    reader = asyncio.create_task(read_slowly())
    await until(lambda: connections.steps > 0, "it reads")
    reader.cancel()
    await asyncio.wait([reader])

    assert reader.cancelled()
    assert await read(connections) == [1, 2, 3]
    await until(lambda: not handles(tmp_path), "the files are closed")


async def test_a_writer_commits_or_changes_nothing(connections: Counted) -> None:
    """What a writer wrote is there after its commit only."""
    engine = create_async_engine("sqlite+aiosqlite://", async_creator=connections.writer, poolclass=NullPool)
    for number, last in ((4, "COMMIT"), (5, "ROLLBACK")):
        async with engine.connect() as connection:
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
            await connection.execute(text("INSERT INTO numbers VALUES (:number)"), {"number": number})
            await connection.exec_driver_sql(last)

    assert await read(connections) == [1, 2, 3, 4]
