"""Keep the store in one SQLite file in WAL mode: readers never wait, writers take turns.

The file is opened for a step. It serves further reads for a quarter of a second, unless it was replaced. So a
replaced file is never read through an old handle, and an idle daemon holds none. A mark beside the file
records that a store existed: a missing file is then a fault, not an empty store.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import NullPool, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from consumer.core.errors import StoreGone
from consumer.edges.sqlite_file.connection import Connection, SqliteConnections
from consumer.edges.sqlite_file.file import READ_WRITE, SqliteFile
from consumer.edges.store.database import Database

_UNSETTLED_S = 0.1
"""Seconds during which a changed file may change again without a new time stamp."""


class SqliteDatabase(Database):
    """``leveret.db`` in the state folder."""

    faults = (*Database.faults, sqlite3.Error)

    def __init__(self, home: Path, busy_timeout_s: float) -> None:
        self._file = SqliteFile(home)
        self._connections = SqliteConnections(self._file, busy_timeout_s)
        super().__init__(_engine(self._connections.reader), str(self._file.path))
        self._writer = _engine(self._connections.writer)
        event.listen(self._writer.sync_engine, "begin", _begin)
        self._turn = asyncio.Lock()  #: of a writer: those that wait in SQLite would each hold a thread

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

    async def close(self) -> None:
        """Close every connection."""
        await super().close()
        await self._connections.close()

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        async with self._engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        async with self._turn, self._writer.begin() as connection:
            yield connection

    _migrating = _writing

    def _is_gone(self, error: BaseException) -> bool:
        return self._file.is_gone(error)

    def _explain(self, error: BaseException) -> str:
        return self._file.explain(error)


def _engine(connect: Callable[[], Awaitable[Connection]]) -> AsyncEngine:
    return create_async_engine(
        "sqlite+aiosqlite://", async_creator=connect, poolclass=NullPool, hide_parameters=True
    )


def _begin(connection: SyncConnection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
