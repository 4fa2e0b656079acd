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
from urllib.parse import quote

from sqlalchemy import URL, Connection, NullPool, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from consumer.core.errors import StoreGone
from consumer.edges.store.database import Database

FILE_NAME = "leveret.db"
MARK_NAME = "store.made"

_UNSETTLED_S = 0.1
"""Seconds during which a changed file may change again without a new time stamp."""
_WRITING = "leveret_writing"

_MEANINGS = {
    sqlite3.SQLITE_BUSY: "is locked by another process; find it with `fuser -v` on the file, and try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process; find it with `fuser -v` on the file, and try again",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is not a valid SQLite file; restore it from a backup",
    sqlite3.SQLITE_READONLY: "cannot be written; check the rights of file, folder and mount",
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check the rights of file and folder, and the disk",
    sqlite3.SQLITE_IOERR: "the disk fails to read or write; check the system's log and the free space",
    sqlite3.SQLITE_PERM: "cannot be opened; check the rights of file and folder",
}

_CANNOT_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)


class SqliteDatabase(Database):
    """``leveret.db`` in the state folder."""

    faults = (*Database.faults, sqlite3.Error)

    def __init__(self, home: Path, busy_timeout_s: float) -> None:
        self.path = home / FILE_NAME
        self._mark = home / MARK_NAME
        super().__init__(_engine(self.path, busy_timeout_s, "mode=rw"), str(self.path))
        self._still = _engine(self.path, busy_timeout_s, "mode=ro&immutable=1")
        self._writer = self._engine.execution_options(**{_WRITING: True})

    def fingerprint(self) -> Hashable:
        """Return ``stat`` values of the file and its log; None soon after a change, when it is unreliable."""
        shown: list[Hashable] = []
        for path in (self.path, self.path.with_name(FILE_NAME + "-wal")):
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
        try:
            self.path.stat()
        except FileNotFoundError:
            if self._is_current:
                raise StoreGone(f"{self.path}: {self._gone()}") from None
            self._demand_fresh()
            return True
        return False

    def _demand_fresh(self) -> None:
        if self._mark.exists():
            raise StoreGone(f"{self.path}: {self._gone()}")

    def _gone(self) -> str:
        return f"has gone or is empty; restore it from a backup, or remove {self._mark} to begin a new store"

    def _create(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def _made(self) -> None:
        if not self._mark.exists():
            with suppress(OSError):  # the next write reports a disk that refuses the mark
                os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT, 0o600))
        # The file keeps the mode, but a backup may lack it. If this fails now, the next process repeats it.
        name = f"file:{quote(os.fsencode(self.path.absolute()))}?mode=rw"
        with suppress(sqlite3.Error), closing(sqlite3.connect(name, uri=True)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        engine = await self._readable()
        async with engine.connect() as connection:
            yield connection

    async def _readable(self) -> AsyncEngine:
        """Return an engine for reading; on a full or read-only disk without a writer, one without a log file.

        Source: SQLite, "Write-Ahead Logging", read-only databases (readers make an index of the log).
        """
        try:
            async with self._engine.connect() as connection:
                await connection.execute(text("SELECT 1 FROM sqlite_master LIMIT 1"))
        except (SQLAlchemyError, sqlite3.Error) as error:
            if _code(error) not in _CANNOT_WRITE or self._log_size_bytes():
                raise
            return self._still
        return self._engine

    def _log_size_bytes(self) -> int:
        try:
            return self.path.with_name(FILE_NAME + "-wal").stat().st_size
        except FileNotFoundError:
            return 0

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        async with self._writer.begin() as connection:
            yield connection

    _migrating = _writing

    def _is_gone(self, error: BaseException) -> bool:
        return not self.path.exists() or "no such table" in str(getattr(error, "orig", error))

    def _explain(self, error: BaseException) -> str:
        cause = getattr(error, "orig", error)
        if isinstance(cause, OSError):
            return f"{cause.strerror or cause}; check that the file exists and that you may read and write it"
        if not self.path.exists():
            return self._gone()
        if isinstance(cause, sqlite3.Error):
            meaning = _MEANINGS.get(_code(cause))
            if meaning is None and self._is_gone(cause):
                meaning = "holds no store; restore it from a backup"
            return meaning or f"SQLite answers {cause}"
        return str(cause)


def _code(error: BaseException) -> int:
    """Return SQLite's primary result code; 0 for any other error."""
    return int(getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)) & 0xFF


def _engine(path: Path, busy_timeout_s: float, how: str) -> AsyncEngine:
    name = f"file:{quote(os.fsencode(path.absolute()))}"
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=f"{name}?{how}", query={"uri": "true"}),
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
