"""Wrap one SQL database: its transactions, its migrations, and its errors in plain words.

Data flow: SqlStore -> :meth:`Database.reading` or :meth:`Database.writing` -> SQLAlchemy -> SQLite or
PostgreSQL. An error there leaves as StoreUnavailable: one line with place, fault and remedy.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Final

from sqlalchemy import Connection, Table, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from consumer.core.errors import StoreGone, StoreUnavailable
from consumer.edges.store.tables import SCHEMA, VERSION_TABLE

_VERSION = text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 (a constant of ours)

CLOSING_S: Final = 1.0  #: longest wait at the end for what a connection still does
BUSY = "all connections are in use, and none became free in time; try again, and look for slow reads"


class NewerSchema(StoreUnavailable):
    """A newer release has changed the tables: this one only reads them, as far as it can."""


class Database(ABC):
    """The common part of SQLite and PostgreSQL.

    Attributes:
        where: Place of the database for messages, without a password.
    """

    #: Errors that the driver raises.
    faults: tuple[type[BaseException], ...] = (SQLAlchemyError, OSError)

    def __init__(self, engine: AsyncEngine, where: str) -> None:
        self.where = where
        self._engine = engine
        self._is_current = False  #: whether the schema is known to be the newest
        self._is_there = False  #: whether the last reader found a schema, and no error came after it
        self._tables: set[str] = set()  #: names of tables that readers found, and no error came after it
        self._preparing = asyncio.Lock()
        self._given_back: set[asyncio.Task[None]] = set()  #: connections on their way to the pool

    def fingerprint(self) -> Hashable:
        """Return a value that differs after each change; None if only a query can detect changes."""
        return None

    @asynccontextmanager
    async def reading(self, table: Table | None = None) -> AsyncIterator[AsyncConnection | None]:
        """Give a connection to read with; None before a store exists.

        Args:
            table: One that is read; None is given too where an older release made the store without it.

        Raises:
            StoreUnavailable: the database cannot be read.
        """
        with self.explained():
            if self._is_new():
                yield None
                return
            async with self._reading() as connection:
                if not (self._is_current or self._is_there):
                    self._is_there = await connection.run_sync(_schema) is not None
                found = self._is_current or self._is_there
                if found and table is not None:
                    found = await self._has_seen(connection, table)
                yield connection if found else None

    async def _has_seen(self, connection: AsyncConnection, table: Table) -> bool:
        if table.name not in self._tables and await has_table(connection, table):
            self._tables.add(table.name)
        return table.name in self._tables

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Give the only write transaction, on the newest schema; other writers wait.

        Raises:
            StoreUnavailable: the database cannot be written, or has a newer schema; nothing was written.
        """
        await self.prepare()
        with self.explained():
            async with self._writing() as connection:
                self._refuse_newer(str(await connection.scalar(_VERSION)))
                yield connection

    async def prepare(self) -> None:
        """Migrate the schema once; two callers at the same time take turns.

        Raises:
            NewerSchema: the schema is of a newer release.
            StoreUnavailable: the database cannot be read, or needs a migration and cannot be written.
        """
        async with self._preparing:
            if not self._is_current:
                with self.explained():
                    await self._prepare()
                self._is_current = True

    async def schema(self) -> str | None:
        """Return the number of the schema; None before a store exists. Nothing is migrated.

        Raises:
            StoreUnavailable: the database cannot be read.
        """
        async with self.reading() as connection:
            return None if connection is None else await connection.run_sync(_schema)

    async def close(self) -> None:
        """Close every connection."""
        if self._given_back:
            await asyncio.wait(self._given_back, timeout=CLOSING_S)
        await self._engine.dispose()

    @asynccontextmanager
    async def _taken(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        """Give a connection of *engine*, in no transaction.

        To open one takes several steps, and SQLAlchemy forgets it open when the caller is cancelled between
        two of them. So a task of its own takes it, and gives it back if the caller has ended meanwhile.
        """
        taking = asyncio.create_task(_take(engine))
        try:
            yield await asyncio.shield(taking)
        finally:
            giving_back = asyncio.create_task(_give_back(taking))
            self._given_back.add(giving_back)
            giving_back.add_done_callback(self._given_back.discard)
            if taking.done():
                await asyncio.shield(giving_back)

    async def _prepare(self) -> None:
        async with self.reading() as connection:
            found = None if connection is None else await connection.run_sync(_schema)
        if found is None or found < SCHEMA:
            await asyncio.to_thread(self._create)
            async with self._migrating() as migrating:
                found = await migrating.run_sync(_schema)  # another process may have been faster
                if found is None:
                    self._demand_fresh()
                if found is None or found < SCHEMA:
                    await migrating.run_sync(_upgrade)
                    found = SCHEMA
        self._refuse_newer(found)
        await asyncio.to_thread(self._made)

    def _refuse_newer(self, found: str) -> None:
        if found > SCHEMA:
            raise NewerSchema(
                f"{self.where}: is of a newer release (schema {found}, this one knows {SCHEMA}) and is not "
                "written; upgrade this leveret, or restore a backup of before"
            )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of the driver into StoreUnavailable."""
        try:
            yield
        except PoolTimeoutError as error:
            raise StoreUnavailable(f"{self.where}: {BUSY}") from error
        except self.faults as error:
            self._is_there = False
            self._tables.clear()
            fault = StoreGone if self._is_gone(error) else StoreUnavailable
            raise fault(f"{self.where}: {self._explain(error)}") from error

    @abstractmethod
    def _explain(self, error: BaseException) -> str:
        """Return fault and remedy in one line, without a password or stored data."""

    @abstractmethod
    def _is_gone(self, error: BaseException) -> bool:
        """Return whether *error* means that tables which existed have disappeared."""

    def _is_new(self) -> bool:
        """Return whether nobody has created this database yet; raise if it existed and has disappeared."""
        return False

    @abstractmethod
    def _create(self) -> None:
        """Create the empty database if that is our task."""

    @abstractmethod
    def _demand_fresh(self) -> None:
        """Raise if an empty database means that a store was lost."""

    @abstractmethod
    def _made(self) -> None:
        """Record that the schema exists."""

    @abstractmethod
    def _reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Begin to read."""

    @abstractmethod
    def _writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Begin a transaction that excludes other writers."""

    @abstractmethod
    def _migrating(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Begin a transaction that excludes other migrations."""


async def _take(engine: AsyncEngine) -> AsyncConnection:
    return await engine.connect()


async def _give_back(taking: asyncio.Task[AsyncConnection]) -> None:
    try:
        connection = await taking
    except Exception:
        return  # the caller has its error, unless it ended before
    await connection.close()


async def has_table(connection: AsyncConnection, table: Table) -> bool:
    """Return whether the store has *table*: an older release may have made it without."""
    return await connection.run_sync(_has, table.name)


def _has(connection: Connection, name: str) -> bool:
    return inspect(connection).has_table(name)


def _schema(connection: Connection) -> str | None:
    """Return the number of the schema; None for a database without our tables."""
    if not _has(connection, VERSION_TABLE):
        return None
    found = connection.scalar(_VERSION)
    return None if found is None else str(found)


def _upgrade(connection: Connection) -> None:
    """Run the missing migrations, in the transaction of *connection*."""
    from consumer.edges.store.migrate import upgrade  # noqa: PLC0415 (Alembic costs 50 ms and 5 MB, once in a schema's life)

    upgrade(connection)
