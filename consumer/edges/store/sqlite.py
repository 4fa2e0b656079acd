"""Keep the store in one SQLite file in WAL mode: readers never wait, writers take turns.

A connection is opened for each step and closed after it. So a replaced file is never read through an old
handle, and an idle daemon holds none. A mark beside the file records that a store existed: a missing file is
then a fault, not an empty store.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, NullPool, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from consumer.core.errors import StoreGone
from consumer.edges.sqlite_file.file import READ_WRITE, STILL, SqliteFile
from consumer.edges.store.database import Database

_UNSETTLED_S = 0.1
"""Seconds during which a changed file may change again without a new time stamp."""
_WRITING = "leveret_writing"


class SqliteDatabase(Database):
    """``leveret.db`` in the state folder."""

    faults = (*Database.faults, sqlite3.Error)

    def __init__(self, home: Path, busy_timeout_s: float) -> None:
        self._file = SqliteFile(home)
        super().__init__(_engine(self._file, busy_timeout_s, READ_WRITE), str(self._file.path))
        self._still = _engine(self._file, busy_timeout_s, STILL)
        self._writer = self._engine.execution_options(**{_WRITING: True})

    def fingerprint(self) -> Hashable:
        """Return ``stat`` values of the file and its log; None soon after a change, when it is unreliable."""
        shown: list[Hashable] = []
        for path in (self._file.path, self._file.log):
            try:
                status = path.stat()
            except OSError:
                shown.append(None)
                continue
            if abs(time.time() - status.st_mtime) < _UNSETTLED_S:
                return None
            shown.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(shown)

    def _is_new(self) -> bool:
        if self._is_current and not self._file.path.exists():
            raise StoreGone(f"{self.where}: {self._file.gone()}")
        return self._file.is_new()

    def _demand_fresh(self) -> None:
        self._file.demand_fresh()

    def _create(self) -> None:
        self._file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self._file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def _made(self) -> None:
        if not self._file.mark.exists():
            with suppress(OSError):  # the next write reports a disk that refuses the mark
                os.close(os.open(self._file.mark, os.O_WRONLY | os.O_CREAT, 0o600))
        # The file keeps the mode, but a backup may lack it. If this fails now, the next process repeats it.
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(self._file.name(READ_WRITE), uri=True)) as connection,
        ):
            connection.execute("PRAGMA journal_mode = WAL")

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        engine = await self._readable()
        async with engine.connect() as connection:
            yield connection

    async def _readable(self) -> AsyncEngine:
        """Return an engine for reading: on a disk that refuses writes, one that needs no log file."""
        try:
            async with self._engine.connect() as connection:
                await connection.execute(text("SELECT 1 FROM sqlite_master LIMIT 1"))
        except (SQLAlchemyError, sqlite3.Error) as error:
            if not self._file.is_still(error):
                raise
            return self._still
        return self._engine

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        async with self._writer.begin() as connection:
            yield connection

    _migrating = _writing

    def _is_gone(self, error: BaseException) -> bool:
        return self._file.is_gone(error)

    def _explain(self, error: BaseException) -> str:
        return self._file.explain(error)


def _engine(file: SqliteFile, busy_timeout_s: float, how: str) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=file.name(how), query={"uri": "true"}),
        poolclass=NullPool,
        connect_args={"timeout": busy_timeout_s},
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "connect", _set_up)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _set_up(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins no transactions by itself
    cursor = connection.cursor()
    for pragma in ("foreign_keys = ON", "synchronous = FULL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    is_write = connection.get_execution_options().get(_WRITING)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")
