"""One SQL database: transactions, the way to its newest schema, and faults in plain words.

Data flow: SqlStore -> :meth:`Database.reading` or :meth:`Database.writing` -> SQLAlchemy -> SQLite or
PostgreSQL. What goes wrong there leaves as StoreUnavailable: one line that names place, fault and remedy.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from consumer.core.errors import StoreGone, StoreUnavailable
from consumer.edges.store.tables import SCHEMA, VERSION_TABLE

_VERSION = text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 (a constant of ours)


class NewerSchema(StoreUnavailable):
    """A newer release has changed the tables: this one may read, if it can, and never writes."""


class Database(ABC):
    """What SQLite and PostgreSQL have in common.

    Attributes:
        where: Place of the database for messages, without a password.
    """

    faults: tuple[type[BaseException], ...] = (SQLAlchemyError, OSError)  #: what the driver raises

    def __init__(self, engine: AsyncEngine, where: str) -> None:
        self.where = where
        self._engine = engine
        self._is_current = False  #: its schema was found, or made, the newest
        self._preparing = asyncio.Lock()

    def look(self) -> Hashable:
        """Return something that is another one after each change, or None when only a query tells."""
        return None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection | None]:
        """Give a connection to read with; None while there is no store yet.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        with self._explained():
            if self._is_new():
                yield None
                return
            async with self._reading() as connection:
                found = self._is_current or await connection.run_sync(_schema) is not None
                yield connection if found else None

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Give the one transaction that may write now, on the newest schema; others wait.

        Raises:
            StoreUnavailable: it cannot be written, or is of a newer release; nothing was written.
        """
        await self.prepare()
        with self._explained():
            async with self._writing() as connection:
                self._refuse_newer(str(await connection.scalar(_VERSION)))
                yield connection

    async def prepare(self) -> None:
        """Bring the schema up to date, once; two that do so at the same time stand in line.

        Raises:
            NewerSchema: it is of a newer release.
            StoreUnavailable: it cannot be read, or must be written and cannot be.
        """
        async with self._preparing:
            if not self._is_current:
                with self._explained():
                    await self._prepare()
                self._is_current = True

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()

    async def _prepare(self) -> None:
        async with self.reading() as connection:
            found = None if connection is None else await connection.run_sync(_schema)
        if found is None or found < SCHEMA:
            await asyncio.to_thread(self._create)
            async with self._migrating() as migrating:
                found = await migrating.run_sync(_schema)  # another one may have been faster
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
    def _explained(self) -> Iterator[None]:
        """Turn what the driver raises into StoreUnavailable."""
        try:
            yield
        except self.faults as error:
            fault = StoreGone if self._is_gone(error) else StoreUnavailable
            raise fault(f"{self.where}: {self._explain(error)}") from error

    @abstractmethod
    def _explain(self, error: BaseException) -> str:
        """Say in one line what is wrong and what to do; no password, nothing of the data."""

    @abstractmethod
    def _is_gone(self, error: BaseException) -> bool:
        """Say whether *error* means that tables which were there are there no more."""

    def _is_new(self) -> bool:
        """Whether nobody has made this database yet; raises when it has gone."""
        return False

    @abstractmethod
    def _create(self) -> None:
        """Make the empty database where that is ours to do."""

    @abstractmethod
    def _demand_fresh(self) -> None:
        """Raise when an empty database is not what must be expected."""

    @abstractmethod
    def _made(self) -> None:
        """Note that the schema stands."""

    @abstractmethod
    def _reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Begin to read."""

    @abstractmethod
    def _writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Begin a transaction that keeps other writers out."""

    @abstractmethod
    def _migrating(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Begin a transaction that keeps out all who migrate."""


def _schema(connection: Connection) -> str | None:
    """Return the number of the schema, or None for a database without our tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.scalar(_VERSION)
    return None if found is None else str(found)


def _upgrade(connection: Connection) -> None:
    """Run the steps that are missing, in the transaction of *connection*."""
    from consumer.edges.store.migrate import upgrade  # noqa: PLC0415 (Alembic costs 50 ms and 5 MB, once in a schema's life)

    upgrade(connection)
