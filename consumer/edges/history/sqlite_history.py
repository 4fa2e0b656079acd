"""Keep the history in a SQLite file of its own, ``history.db`` in the state folder.

It is not in the store's file: each write there would make every process read the subscriptions again.
One thread writes, in a child process of the worker, and one statement writes many rows. Decisions 34 and 53.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import chain, starmap
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from consumer.core.errors import StoreUnavailable
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Query, StoredStep
from consumer.core.history.sums import Part, Sum
from consumer.core.history.trace import EventKey
from consumer.edges.history.history_store import Limits
from consumer.edges.history.sqlite_inserts import inserts
from consumer.edges.history.statements import (
    FUTURE_S,
    INDEXES,
    LATE_S,
    SEARCH,
    TABLE,
    WRITER_KEPT_S,
    WRITERS,
    Span,
    needs_first,
    needs_last,
    select_steps,
)
from consumer.edges.history.sum_statements import sum_statements

FILE_NAME: Final = "history.db"
KEYS_AT_ONCE: Final = 500  #: events of one look-up
TRIM_ROWS: Final = 500  #: rows that one transaction deletes, at most
CHECKPOINT_PAGES: Final = 4_000  #: 16 MB of log before it moves into the file
CACHE_KIB: Final = 16_384
READ_S: Final = 5.0  #: how long a reader waits for a lock

_T = TypeVar("_T")
_REFUSED: Final = (
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
)

#: Two queries in one: SQLite reads the whole table for a minimum and a maximum of one query.
_ENDS: Final = f"SELECT (SELECT min(seq) FROM {TABLE} WHERE seq >= ?), (SELECT max(seq) FROM {TABLE})"  # noqa: S608 (constants of ours)
_SUMS: Final = sum_statements(lambda n: f"?{n}", "")
_TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    step TEXT NOT NULL,
    event_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    type TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status INTEGER,
    latency_ms REAL,
    wait_ms REAL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    answer BLOB,
    answer_type TEXT NOT NULL
)"""
_WRITERS: Final = f"""
CREATE TABLE IF NOT EXISTS {WRITERS} (
    writer TEXT PRIMARY KEY,
    batch INTEGER NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID"""
_NOTE: Final = (
    f"INSERT INTO {WRITERS} (writer, batch, at) VALUES (?, ?, strftime('%s', 'now')) "  # noqa: S608 (constants of ours)
    "ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, at = excluded.at "
    "WHERE batch < excluded.batch"
)
_FORGET: Final = f"DELETE FROM {WRITERS} WHERE at < strftime('%s', 'now') - {WRITER_KEPT_S}"  # noqa: S608 (constants of ours)


class SqliteHistory:
    """Implements all protocols of :mod:`.history_store`. Several processes may share the file."""

    def __init__(self, home: Path, busy_timeout_s: float, writer: str = "") -> None:
        """Bind to a folder; nothing is opened or created before the first use.

        Args:
            home: The state folder.
            busy_timeout_s: Longest wait for another writer.
            writer: Name under which the numbers of batches are noted; empty: a new one.
        """
        self._path = home / FILE_NAME
        self._busy_timeout_s = busy_timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._connection: sqlite3.Connection | None = None  #: of the writing thread
        self._inode = 0
        self._oldest = 0  #: no row has a smaller *seq*
        self._writer = writer or secrets.token_hex(8)

    async def write(self, number: int, batch: HistoryBatch) -> None:
        """Write a batch in one transaction, unless this writer's batch *number* is there."""
        await self._in_thread(lambda: self._write(number, batch))

    async def trim(self, limits: Limits, now: float) -> bool:
        """Delete the oldest rows beyond *limits*, at most :data:`TRIM_ROWS`; no file has none."""
        return await self._in_thread(lambda: self._path.exists() and self._trim(limits, now))

    async def steps(self, query: Query) -> Sequence[StoredStep]:
        """Return the rows of *query*; a missing file has none."""
        return await asyncio.to_thread(self._explained, lambda: self._steps(query))

    async def numbers(self, since: float) -> range:
        """Return the numbers of the rows since a time; a missing file has none."""
        return await asyncio.to_thread(self._explained, lambda: self._numbers(since))

    async def sums(self, part: Part) -> Iterator[Sum]:
        """Return the sums of some rows; a missing file has none."""
        return await asyncio.to_thread(self._explained, lambda: self._sums(part))

    async def settled(self, keys: Sequence[EventKey], since: float, until: float) -> Collection[EventKey]:
        """Return those of *keys* with a ``settled`` row in a time; a missing file has none."""
        return await self._in_thread(lambda: self._settled(keys, since, until) if self._path.exists() else ())

    async def close(self) -> None:
        """Close the file."""
        await self._in_thread(self._close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, step: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._reopening, step)

    def _reopening(self, step: Callable[[], _T]) -> _T:
        """Run *step*; after an error the file is opened anew."""
        try:
            return self._explained(step)
        except StoreUnavailable:
            self._close()
            raise

    def _explained(self, step: Callable[[], _T]) -> _T:
        """Run *step*; an error of SQLite or of the disk becomes StoreUnavailable or ValueError."""
        try:
            return step()
        except (*_REFUSED, UnicodeError, OverflowError) as error:
            raise ValueError(f"{self._path}: {error}") from error
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(
                f"{self._path}: {error}; free some space, or move the file away"
            ) from error

    def _open(self) -> sqlite3.Connection:
        """Return the connection for writing; a file that was replaced or deleted is opened anew."""
        if self._connection is not None:
            with suppress(FileNotFoundError):
                if self._path.stat().st_ino == self._inode:
                    return self._connection
            self._close()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            self._path, self._busy_timeout_s, isolation_level=None, cached_statements=16
        )
        try:
            _set_up(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._inode, self._oldest = connection, self._path.stat().st_ino, 0
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, number: int, batch: HistoryBatch) -> None:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute(_NOTE, (self._writer, number)).rowcount:
                for statement, values in inserts(batch):
                    connection.execute(statement, values)
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise

    def _trim(self, limits: Limits, now: float) -> bool:
        connection = self._open()
        oldest, newest = connection.execute(_ENDS, (self._oldest,)).fetchone()
        if oldest is None:
            return False
        self._oldest = oldest
        end, first_kept = oldest + TRIM_ROWS, newest - limits.max_rows + 1
        by_rows = f"DELETE FROM {TABLE} WHERE seq < ?"  # noqa: S608 (constants of ours)
        if oldest < first_kept:
            return connection.execute(by_rows, (min(end, first_kept),)).rowcount > 0
        by_age = f"{by_rows} AND (at < ? OR at > ?)"
        times = (now - limits.max_age_s, now + FUTURE_S)
        if connection.execute(by_age, (end, *times)).rowcount:
            return True
        connection.execute(_FORGET)
        return False

    def _settled(self, keys: Sequence[EventKey], since: float, until: float) -> Collection[EventKey]:
        connection, found = self._open(), set[EventKey]()
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE]
            values = (*chain.from_iterable(some), since, until)
            found.update(EventKey(*row) for row in connection.execute(settled_query(len(some)), values))
        return found

    def _steps(self, query: Query) -> Sequence[StoredStep]:
        with self._reading() as connection:
            if connection is None:
                return ()
            text, values = select_steps(query, _span(connection, query), lambda _: "?")
            found = [StoredStep(row[0], HistoryRow(*row[1:])) for row in connection.execute(text, values)]
        return found if query.after is not None else found[::-1]

    def _numbers(self, since: float) -> range:
        with self._reading() as connection:
            if connection is None:
                return range(0)
            _, newest = connection.execute(_ENDS, (0,)).fetchone()
            return range(_first_since(connection, since - LATE_S), 0 if newest is None else newest + 1)

    def _sums(self, part: Part) -> Iterator[Sum]:
        with self._reading() as connection:
            if connection is None:
                return iter(())
            wanted = [each for each in _SUMS if each.is_wanted(part)]
            found = [(each, connection.execute(each.text, each.values(part)).fetchall()) for each in wanted]
        return chain.from_iterable(starmap(each.make, rows) for each, rows in found)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Give a connection whose queries see one state of the rows; None if there is no history."""
        if not self._path.exists():
            yield None
            return
        name = f"file:{quote(os.fsencode(self._path.absolute()))}?mode=ro"
        with closing(sqlite3.connect(name, READ_S, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            is_there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
            yield None if is_there is None else connection


def _set_up(connection: sqlite3.Connection) -> None:
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",  # a crash of the machine may lose the last rows, a crash of ours does not
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"cache_size = -{CACHE_KIB}",
        "journal_size_limit = 67108864",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(_TABLE)
    connection.execute(_WRITERS)
    for name, column, covers in INDEXES:
        where = f"WHERE {covers}" if covers else ""
        connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {TABLE} ({column}) {where}")


def settled_query(keys: int) -> str:
    """Return the query for so many keys: one look into the index of event ids for each of them."""
    asked = ", ".join(["(?, ?, ?)"] * keys)
    return (
        f"WITH asked (event_id, tenant, type) AS (VALUES {asked}) "  # noqa: S608 (constants of ours)
        f"SELECT event_id, tenant, type FROM asked WHERE EXISTS (SELECT 1 FROM {TABLE} AS kept "
        "WHERE kept.event_id = asked.event_id AND kept.step = 'settled' AND kept.tenant = asked.tenant "
        "AND kept.type = asked.type AND kept.at BETWEEN ? AND ?)"
    )


def _roll_back(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _span(connection: sqlite3.Connection, query: Query) -> Span:
    first = _first_since(connection, query.since - LATE_S) if needs_first(query) else 0
    last = _first_since(connection, query.until + LATE_S) if needs_last(query) else None
    return Span(first, last)


def _first_since(connection: sqlite3.Connection, at: float) -> int:
    """Return a *seq* before which each row is older than *at*, by bisection: rows are nearly in order."""
    low, high = connection.execute(_ENDS, (0,)).fetchone()
    if low is None:
        return 0
    statement = SEARCH.format("?")
    while low < high:
        middle = (low + high) // 2
        if connection.execute(statement, (middle,)).fetchone()[0] < at:
            low = middle + 1
        else:
            high = middle
    return int(low)
