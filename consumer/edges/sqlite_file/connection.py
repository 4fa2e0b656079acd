"""Read and write the SQLite file with one step in a thread for each statement.

Data flow: SQLAlchemy -> :class:`Connection`, in the place of aiosqlite's -> one step in a thread -> sqlite3.

aiosqlite starts a thread for each connection, and takes a step in it to open the file and for each pragma,
cursor, statement, fetch and close: forty for one SELECT. In a busy worker each one waits for its turn.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from consumer.edges.sqlite_file.file import READ_WRITE, STILL, SqliteFile

KEPT_S: Final = 0.25
"""Seconds for which an open file serves further reads, unless it is replaced; an idle process holds none."""
KEPT_MAX: Final = 4  #: open files that wait for a reader
ROWS_AT_ONCE: Final = 1_000  #: rows that one step fetches
_THREADS: Final = 8

_T = TypeVar("_T")
_PRAGMAS: Final = ("foreign_keys = ON", "synchronous = FULL")


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open file."""

    raw: sqlite3.Connection
    identity: Hashable  #: None: it is not used again
    until: float = 0.0  #: monotonic seconds; it is not used again afterwards


class SqliteConnections:
    """Opens the file for readers and writers."""

    def __init__(self, file: SqliteFile, busy_timeout_s: float) -> None:
        """Bind to a file; nothing is opened yet.

        Args:
            file: The file of the store.
            busy_timeout_s: Longest wait for another writer.
        """
        self._file = file
        self._busy_timeout_s = busy_timeout_s
        self._free: list[_Opened] = []
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="store")

    async def reader(self) -> Connection:
        """Return a connection whose first statement begins a transaction. Nothing is opened before it."""
        return Connection(self, is_reader=True)

    async def writer(self) -> Connection:
        """Return a connection whose user begins its transactions. Nothing is opened before the first."""
        return Connection(self, is_reader=False)

    async def close(self) -> None:
        """Close the files that wait for a reader."""
        free, self._free = self._free, []
        if free:
            await self.in_thread(lambda: _close(free))

    async def in_thread(self, step: Callable[[], _T]) -> _T:
        """Run a step in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, step)

    def take(self) -> _Opened | None:
        """Return an open file that waits for a reader; None without one, or if the file was replaced."""
        now, identity = time.monotonic(), self._identity() if self._free else None
        while self._free:
            kept = self._free.pop()
            if now < kept.until and kept.identity == identity:
                return kept
            self._threads.submit(kept.raw.close)
        return None

    def open_to_read(self) -> _Opened:
        """Return the file, open; on a disk that refuses writes, in a way that needs no index of its log."""
        try:
            raw = self.open(READ_WRITE)
            try:
                raw.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
            except sqlite3.Error:
                raw.close()
                raise
        except sqlite3.Error as error:
            if not self._file.is_still(error):
                raise
            return _Opened(self.open(STILL), None)
        return _Opened(raw, self._identity(), time.monotonic() + KEPT_S)

    def open(self, how: str) -> sqlite3.Connection:
        """Open the file.

        Raises:
            sqlite3.Error: it cannot be opened.
        """
        raw = sqlite3.connect(
            self._file.name(how),
            uri=True,
            timeout=self._busy_timeout_s,
            isolation_level=None,  # the driver begins no transactions by itself
            check_same_thread=False,
        )
        try:
            for pragma in _PRAGMAS:
                raw.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            raw.close()
            raise
        return raw

    def keep(self, opened: _Opened) -> bool:
        """Take back a file for the next reader; return False if it has to be closed.

        Its next transaction begins here, as each statement in a thread waits for the interpreter's lock. It
        locks nothing before its first read. Source: SQLite, "Transaction", DEFERRED.
        """
        rest_s = opened.until - time.monotonic()
        if opened.identity is None or rest_s <= 0 or len(self._free) >= KEPT_MAX:
            return False
        opened.raw.execute("BEGIN")
        self._free.append(opened)
        asyncio.get_running_loop().call_later(rest_s, self._close_old)
        return True

    def _close_old(self) -> None:
        now = time.monotonic()
        old = [each for each in self._free if each.until <= now]
        if old:
            self._free = [each for each in self._free if each.until > now]
            self._threads.submit(_close, old)

    def _identity(self) -> Hashable:
        """Return a value that differs once the file is replaced or written over, or its log is replaced.

        Changes are appended to the log, and move into the file rarely.
        """
        try:
            file, log = self._file.path.stat(), self._file.log.stat()
        except OSError:
            return None
        return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, log.st_ino


class Connection:
    """Looks to SQLAlchemy like a connection of aiosqlite. Statements run one after the other."""

    isolation_level = None

    def __init__(self, connections: SqliteConnections, *, is_reader: bool) -> None:
        """Bind to the file; the first statement opens it."""
        self._connections = connections
        self._is_reader = is_reader
        self._lock = threading.Lock()  #: held by a step: a cancelled one may still run when the next comes
        self._opened: _Opened | None = None
        self._is_sound = True  #: False after an error or a cancelled step
        self._is_closed = False
        self._cursors: list[sqlite3.Cursor] = []  #: those with further rows

    async def create_function(self, *_arguments: object, **_named: object) -> None:
        """Ignore the functions of SQLAlchemy, ``regexp`` and ``floor``, as no statement uses them."""

    async def cursor(self) -> Cursor:
        """Return a cursor."""
        return Cursor(self)

    async def commit(self) -> None:
        """Commit."""
        await self.run(lambda raw: raw.commit())

    async def rollback(self) -> None:
        """Roll back."""
        if self._is_reader and self._is_sound:
            self._end_reading()
        elif self._opened is not None:
            await self._connections.in_thread(self._roll_back)

    async def close(self) -> None:
        """Close the file, or leave it to the next reader."""
        opened = self._opened
        if self._is_closed or (opened is None and self._is_sound):
            self._is_closed = True
        elif self._is_reader and self._is_sound and opened is not None:
            self._end_reading()
            self._is_closed = True
            if not self._connections.keep(opened):
                await self._connections.in_thread(opened.raw.close)
        else:
            await self._connections.in_thread(self._close)

    def stop(self) -> None:
        """Close the file without waiting for it."""
        threading.Thread(target=self._close, name="store closing", daemon=True).start()

    async def run(self, step: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a step in a thread, after those before it; a reader begins a transaction with it."""
        if self._opened is None and self._is_reader and self._is_sound:
            self._opened = self._connections.take()
        try:
            return await self._connections.in_thread(lambda: self._step(step))
        except BaseException:
            self._is_sound = False
            raise

    def remember(self, cursor: sqlite3.Cursor) -> None:
        """Close a cursor with further rows no later than this connection."""
        self._cursors.append(cursor)

    def _step(self, step: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            if self._is_closed:
                raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
            if self._opened is None:
                self._opened = self._open()
            raw = self._opened.raw
            if self._is_reader and not raw.in_transaction:
                raw.execute("BEGIN")
            return step(raw)

    def _open(self) -> _Opened:
        if self._is_reader:
            return self._connections.open_to_read()
        return _Opened(self._connections.open(READ_WRITE), None)

    def _end_reading(self) -> None:
        """End the transaction of a reader, which costs no access to the disk."""
        for cursor in self._cursors:
            cursor.close()
        self._cursors.clear()
        if self._opened is not None and self._opened.raw.in_transaction:
            self._opened.raw.rollback()

    def _roll_back(self) -> None:
        with self._lock:
            if self._opened is not None and not self._is_closed:
                self._opened.raw.rollback()

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._opened is not None:
                self._opened.raw.close()


class Cursor:
    """Looks to SQLAlchemy like a cursor of aiosqlite."""

    def __init__(self, connection: Connection) -> None:
        self.description: Any = None
        self.lastrowid: int | None = None
        self.rowcount = -1
        self._connection = connection
        self._rows: Sequence[Any] = ()  #: fetched, and not yet given out
        self._raw: sqlite3.Cursor | None = None  #: has further rows

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement, and fetch its first rows."""
        await self._connection.run(lambda raw: self._run(raw.execute(statement, parameters)))

    async def executemany(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each of *parameters*."""
        await self._connection.run(lambda raw: self._run(raw.executemany(statement, parameters)))

    async def fetchone(self) -> Any:
        """Return the next row; None after the last one."""
        found = await self.fetchmany(1)
        return found[0] if found else None

    async def fetchmany(self, size: int = 1) -> Sequence[Any]:
        """Return up to *size* further rows; none after the last one."""
        if not self._rows and self._raw is not None:
            raw = self._raw
            await self._connection.run(lambda _: self._fetch(raw))
        found, self._rows = self._rows[:size], self._rows[size:]
        return found

    async def fetchall(self) -> Sequence[Any]:
        """Return all further rows."""
        found, self._rows, raw = self._rows, (), self._raw
        if raw is None:
            return found
        self._raw = None
        return [*found, *await self._connection.run(lambda _: raw.fetchall())]

    async def close(self) -> None:
        """Forget further rows."""
        raw, self._raw, self._rows = self._raw, None, ()
        if raw is not None:
            await self._connection.run(lambda _: raw.close())

    def _run(self, cursor: sqlite3.Cursor) -> None:
        self.description, self.lastrowid = cursor.description, cursor.lastrowid
        self.rowcount = cursor.rowcount
        self._raw = cursor
        self._connection.remember(cursor)
        self._fetch(cursor)

    def _fetch(self, cursor: sqlite3.Cursor) -> None:
        self._rows = cursor.fetchmany(ROWS_AT_ONCE) if cursor.description else ()
        if len(self._rows) < ROWS_AT_ONCE:
            self._raw = None
            cursor.close()


def _close(opened: Sequence[_Opened]) -> None:
    for each in opened:
        each.raw.close()
