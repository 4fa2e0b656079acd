"""Keep the store in one SQLite file in WAL mode: readers never wait, writers take turns.

A writer opens the file for each step. Readers take it from a pool, which opens it anew if it was replaced,
and closes it a quarter of a second after the last read. So a replaced file is never read through an old
handle, and an idle daemon holds none. A mark beside the file records that a store existed: a missing file is
then a fault, not an empty store.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final
from weakref import WeakSet

from sqlalchemy import URL, Connection, NullPool, event
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from consumer.core.errors import StoreGone
from consumer.edges.sqlite_file.file import READ_WRITE, STILL, SqliteFile
from consumer.edges.sqlite_file.opened import Opened, OpenedToRead
from consumer.edges.store.database import CLOSING_S, Database

POOL: Final = 4  #: readers at the same time; further ones wait, as to open the file is dear
KEPT_S: Final = 0.25  #: seconds after the last read until an open file is closed
_MAX_AGE_S = 1
"""Longest age of an open file in seconds, as a file that was replaced while it was opened looks fresh."""
_IDENTITY, _TIMER = "leveret_identity", "leveret_timer"
_UNSETTLED_S = 0.1
"""Seconds during which a changed file may change again without a new time stamp."""


class SqliteDatabase(Database):
    """``leveret.db`` in the state folder."""

    faults = (*Database.faults, sqlite3.Error)

    def __init__(self, home: Path, busy_timeout_s: float) -> None:
        self._file = SqliteFile(home)
        self._busy_timeout_s = busy_timeout_s
        bounds = {"pool_size": POOL, "max_overflow": 0, "pool_timeout": busy_timeout_s}
        pool = bounds | {"pool_use_lifo": True, "pool_recycle": _MAX_AGE_S}
        super().__init__(self._open(READ_WRITE, OpenedToRead, **pool), str(self._file.path))
        event.listen(self._engine.sync_engine, "connect", self._opened)
        event.listen(self._engine.sync_engine, "checkout", self._reused)
        event.listen(self._engine.sync_engine, "checkin", _given_back)
        event.listen(self._engine.sync_engine, "close", _closed)
        self._still = self._open(STILL, OpenedToRead, poolclass=NullPool)
        self._writer = self._open(READ_WRITE, Opened, poolclass=NullPool)
        event.listen(self._writer.sync_engine, "begin", _begin)
        self._threads: WeakSet[Thread] = WeakSet()  #: of the readers' connections, one each
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

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._taken(self._engine))
            except (SQLAlchemyError, sqlite3.Error) as error:
                if not self._file.is_still(error):
                    raise
                connection = await stack.enter_async_context(self._taken(self._still))
            yield connection

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        async with self._turn, self._taken(self._writer) as connection, connection.begin():
            yield connection

    _migrating = _writing

    def _open(self, how: str, factory: type[sqlite3.Connection], **pool: Any) -> AsyncEngine:
        return create_async_engine(
            URL.create("sqlite+aiosqlite", database=self._file.name(how), query={"uri": "true"}),
            connect_args={"timeout": self._busy_timeout_s, "factory": factory},
            hide_parameters=True,
            **pool,
        )

    async def close(self) -> None:
        """Close every connection; return once no thread of one will answer to this loop any more."""
        await super().close()
        for thread in [each for each in self._threads if each.is_alive()]:
            await asyncio.to_thread(thread.join, CLOSING_S)

    def _opened(self, connection: Any, record: ConnectionPoolEntry) -> None:
        record.info[_IDENTITY] = self._file.identity()
        self._threads.add(connection.driver_connection._thread)

    def _reused(self, connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
        """Refuse an open file that was replaced: the pool then opens it anew."""
        if _TIMER in record.info:  # it was not opened just now
            _closed(connection, record)
            identity = record.info[_IDENTITY]
            if identity is None or identity != self._file.identity():
                raise DisconnectionError

    def _is_gone(self, error: BaseException) -> bool:
        return self._file.is_gone(error)

    def _explain(self, error: BaseException) -> str:
        return self._file.explain(error)


def _given_back(connection: object | None, record: ConnectionPoolEntry) -> None:
    """Let the file be closed unless another reader comes soon."""
    if connection is not None:  # after an error it is closed already
        record.info[_TIMER] = asyncio.get_running_loop().call_later(KEPT_S, record.invalidate)


def _closed(_connection: object, record: ConnectionPoolEntry) -> None:
    """Stop the timer, as the pool may open another file in the same place."""
    timer = record.info.pop(_TIMER, None)
    if timer is not None:
        timer.cancel()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
