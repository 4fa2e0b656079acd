"""Keep the history in a PostgreSQL table, which several workers may share.

A worker writes over a connection of its own, beside the pool of the store. Each batch is one transaction: it
notes the number of the batch in the row of its writer, and copies the rows. When the connection breaks before
the commit was confirmed, the same batch is tried again, and the noted number shows whether it is there.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain, islice, starmap
from typing import Final

import asyncpg

from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import HistoryRow, Query, StoredStep
from consumer.core.history.sums import Part, Sum
from consumer.core.history.trace import EventKey
from consumer.edges.history.history_store import Limits
from consumer.edges.history.statements import (
    FUTURE_S,
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
from consumer.edges.store.postgres import PostgresDatabase

STATEMENT_S: Final = 10.0  #: longest time for one statement
COPY_ROWS: Final = 500  #: rows that are encoded before the event loop runs again: about 5 ms
TRIM_ROWS: Final = 1_000  #: rows that one transaction deletes, at most
_TRIM_LOCK: Final = 0x6C65766572657402  #: advisory lock of the one worker that deletes: ``leveret`` and 2

_COLUMNS: Final = HistoryRow._fields
_NOTE: Final = (
    f"INSERT INTO {WRITERS} (writer, batch, at) VALUES ($1, $2, extract(epoch FROM now())) "  # noqa: S608 (constants of ours)
    f"ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, at = excluded.at "
    f"WHERE {WRITERS}.batch < excluded.batch RETURNING batch"
)
_ENDS: Final = f"SELECT (SELECT min(seq) FROM {TABLE} WHERE seq >= $1), (SELECT max(seq) FROM {TABLE})"  # noqa: S608 (constants of ours)
_BY_ROWS: Final = f"DELETE FROM {TABLE} WHERE seq >= $1 AND seq < $2"  # noqa: S608 (constants of ours)
#: With only the last bound PostgreSQL reads the whole table, deleted rows too until the next VACUUM: with
#: 450,000 of them one statement took 770 ms instead of 1 ms.
BY_AGE: Final = f"{_BY_ROWS} AND (at < $3 OR at > $4)"
#: ``LIMIT 1`` keeps PostgreSQL at one look into the index of event ids for each key.
SETTLED: Final = f"""
SELECT asked.event_id, asked.tenant, asked.type
FROM unnest($1::text[], $2::text[], $3::text[]) AS asked (event_id, tenant, type)
CROSS JOIN LATERAL (
    SELECT 1 FROM {TABLE} AS kept
    WHERE kept.event_id = asked.event_id AND kept.step = 'settled' AND kept.tenant = asked.tenant
    AND kept.type = asked.type AND kept.at BETWEEN $4 AND $5 LIMIT 1
) AS found"""  # noqa: S608 (constants of ours)
_SUMS: Final = sum_statements(lambda n: f"${n}", "floor")
_REFUSED: Final = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, UnicodeError, TypeError)


class PostgresHistory:
    """Implements all protocols of :mod:`.history_store`."""

    def __init__(self, url: str, busy_timeout_s: float) -> None:
        """Bind to *url*; nothing is opened before the first use.

        Args:
            url: ``postgresql://...``, as for the store.
            busy_timeout_s: Longest wait for a connection.
        """
        self._url = url
        self._busy_timeout_s = busy_timeout_s
        self._writer = secrets.token_hex(8)
        self._database = PostgresDatabase(url, busy_timeout_s)  #: explains errors
        self._is_prepared = False  #: whether the tables were there at the last batch
        self._is_there = False  #: whether the table was there at the last look-up
        self._connection: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()  #: one statement at a time on the connection
        self._oldest = 0  #: no row has a smaller *seq*

    async def write(self, number: int, batch: HistoryBatch) -> None:
        """Write a batch in one transaction, unless this writer's batch *number* is there."""
        async with self._connected() as connection:
            if not self._is_prepared:
                await self._prepare()
            async with connection.transaction():
                if await connection.fetchval(_NOTE, self._writer, number) is not None:
                    rows = iter(batch)
                    while some := list(islice(rows, COPY_ROWS)):
                        await connection.copy_records_to_table(TABLE, records=some, columns=_COLUMNS)

    async def trim(self, limits: Limits, now: float) -> bool:
        """Delete the oldest rows beyond *limits*, at most :data:`TRIM_ROWS`, unless another worker does.

        The commit does not wait for the disk: rows that come back after a crash are deleted again.
        """
        async with self._connected() as connection:
            if not await _exists(connection):
                return False
            async with connection.transaction():
                if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _TRIM_LOCK):
                    return False
                await connection.execute("SET LOCAL synchronous_commit = off")
                return await self._trim(connection, limits, now)

    async def _prepare(self) -> None:
        database = PostgresDatabase(self._url, self._busy_timeout_s)
        try:
            await database.prepare()
        finally:
            await database.close()
        self._is_prepared = True

    async def _trim(self, connection: asyncpg.Connection, limits: Limits, now: float) -> bool:
        oldest, newest = await connection.fetchrow(_ENDS, self._oldest)
        if oldest is None:
            self._oldest = 0
            return False
        self._oldest = oldest
        end, first_kept = oldest + TRIM_ROWS, newest - limits.max_rows + 1
        if oldest < first_kept:
            done = await connection.execute(_BY_ROWS, oldest, min(end, first_kept))
        else:
            ages = (now - limits.max_age_s, now + FUTURE_S)
            done = await connection.execute(BY_AGE, oldest, end, *ages)
        if done == "DELETE 0":
            forgotten = f"DELETE FROM {WRITERS} WHERE at < extract(epoch FROM now()) - $1"  # noqa: S608 (constants of ours)
            await connection.execute(forgotten, WRITER_KEPT_S)
        return bool(done != "DELETE 0")

    async def steps(self, query: Query) -> Sequence[StoredStep]:
        """Return the rows of *query*; a missing table has none."""
        async with self._connected() as connection, connection.transaction(readonly=True):
            if not await _exists(connection):
                return ()
            text, values = select_steps(query, await _span(connection, query), lambda n: f"${n}")
            found = [
                StoredStep(row[0], HistoryRow(*row[1:])) for row in await connection.fetch(text, *values)
            ]
        return found if query.after is not None else found[::-1]

    async def numbers(self, since: float) -> range:
        """Return the numbers of the rows since a time; a missing table has none."""
        async with self._connected() as connection, connection.transaction(readonly=True):
            if not await _exists(connection):
                return range(0)
            first = await _first_since(connection, since - LATE_S)
            _, newest = await connection.fetchrow(_ENDS, 0)
        return range(first, 0 if newest is None else newest + 1)

    async def sums(self, part: Part) -> Iterator[Sum]:
        """Return the sums of some rows of a table that :meth:`numbers` has found."""
        async with self._connected() as connection:
            wanted = [each for each in _SUMS if each.is_wanted(part)]
            found = [(each, await connection.fetch(each.text, *each.values(part))) for each in wanted]
        return chain.from_iterable(starmap(each.make, rows) for each, rows in found)

    async def settled(self, keys: Sequence[EventKey], since: float, until: float) -> Collection[EventKey]:
        """Return those of *keys* with a ``settled`` row in a time; a missing table has none."""
        async with self._connected() as connection:
            if not self._is_there:
                self._is_there = await _exists(connection)
            if not keys or not self._is_there:
                return ()
            rows = await connection.fetch(SETTLED, *map(list, zip(*keys, strict=True)), since, until)
        return {EventKey(*row) for row in rows}

    async def close(self) -> None:
        """Close the connection."""
        async with self._turn:
            self._leave()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[asyncpg.Connection]:
        """Give the connection, alone; after an error it is opened anew at the next use.

        Raises:
            StoreUnavailable: PostgreSQL cannot be reached, or cannot do it now.
            ValueError: it refuses the values.
        """
        async with self._turn:
            with self._database.explained():
                try:
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await self._connect()
                    yield self._connection
                except _REFUSED as error:
                    raise ValueError(f"{self._database.where}: {type(error).__name__}") from error
                except BaseException:
                    self._is_prepared = self._is_there = False
                    self._leave()
                    raise

    async def _connect(self) -> asyncpg.Connection:
        return await asyncpg.connect(
            self._url,
            timeout=self._busy_timeout_s,
            command_timeout=STATEMENT_S,
            server_settings={"application_name": "leveret-history"},
        )

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


async def _exists(connection: asyncpg.Connection) -> bool:
    return await connection.fetchval("SELECT to_regclass($1)", TABLE) is not None


async def _span(connection: asyncpg.Connection, query: Query) -> Span:
    first = await _first_since(connection, query.since - LATE_S) if needs_first(query) else 0
    last = await _first_since(connection, query.until + LATE_S) if needs_last(query) else None
    return Span(first, last)


async def _first_since(connection: asyncpg.Connection, at: float) -> int:
    """Return a *seq* before which each row is older than *at*, by bisection: rows are nearly in order."""
    low, high = await connection.fetchrow(_ENDS, 0)
    if low is None:
        return 0
    statement = SEARCH.format("$1")
    while low < high:
        middle = (low + high) // 2
        if await connection.fetchval(statement, middle) < at:
            low = middle + 1
        else:
            high = middle
    return int(low)
