"""Keep the store in a PostgreSQL database, which several workers may share."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from consumer.edges.store.database import Database
from consumer.edges.store.tables import REVISION

STATEMENT_S = 10.0
"""Longest time for one statement, in seconds; a server that is silent for longer counts as away."""
POOL = 2
"""Connections that stay open; when all are busy, as many again are opened and closed after use."""

_MIGRATION_LOCK = 0x6C65766572657401
"""Number of the advisory lock under which the tables are made: ``leveret`` and 1, as bytes."""

_MEANINGS = {
    "08": "cannot be reached; start PostgreSQL, or correct LEVERET_DATABASE_URL",
    "28": "refuses the user or the password; correct LEVERET_DATABASE_URL",
    "3D": "the database does not exist; make it with createdb, or correct LEVERET_DATABASE_URL",
    "42501": "the user has too few rights; make it the owner: ALTER DATABASE ... OWNER TO ...",
    "42P01": "holds no store; restore it from a backup",
    "25006": "is a standby or read-only; name the primary in LEVERET_DATABASE_URL",
    "53100": "its disk is full; free some space",
    "53": "is short of connections or memory; raise max_connections, or run fewer workers",
    "55P03": "another writer holds the store for too long; look at pg_stat_activity, and try again",
    "57014": "took too long; look at pg_stat_activity, and try again",
    "57": "is shutting down or starting; wait, or start PostgreSQL",
}
"""Text for a SQLSTATE or its class. Source: PostgreSQL, Appendix A."""


class PostgresDatabase(Database):
    """A database whose tables begin with ``leveret_``."""

    faults = (
        *Database.faults,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
    )

    def __init__(self, url: str, busy_timeout_s: float, statement_s: float = STATEMENT_S) -> None:
        """Bind to *url*; nothing is opened yet.

        Args:
            url: ``postgresql://...`` as libpq and asyncpg read it, with options such as ``sslmode``.
            busy_timeout_s: Longest wait for a connection, and for another writer.
            statement_s: Longest time for one statement.
        """
        super().__init__(_engine(url, busy_timeout_s, statement_s), _shown(url))
        self._lock_ms = int(busy_timeout_s * 1000)
        self._statement_s = statement_s

    def _create(self) -> None:
        """Do nothing: the operator creates the database."""

    def _demand_fresh(self) -> None:
        """Do nothing: without its tables, a database has no sign of an earlier store."""

    def _made(self) -> None:
        """Do nothing: the tables themselves record it."""

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        async with self._taken(self._engine) as connection:
            yield connection

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        async with self._taken(self._engine) as connection, connection.begin():
            await connection.execute(text(f"SET LOCAL lock_timeout = {self._lock_ms}"))
            await connection.execute(select(REVISION.c.id).with_for_update())
            yield connection

    @asynccontextmanager
    async def _migrating(self) -> AsyncIterator[AsyncConnection]:
        async with self._taken(self._engine) as connection, connection.begin():
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
            yield connection

    def _is_gone(self, error: BaseException) -> bool:
        return _state(error) == "42P01"

    def _explain(self, error: BaseException) -> str:
        cause = getattr(error, "orig", error)
        state = _state(error)
        meaning = _MEANINGS.get(state) or _MEANINGS.get(state[:2])
        if meaning is not None:
            return meaning
        if isinstance(cause, TimeoutError):
            text = str(cause) or f"did not answer within {self._statement_s:g} s"
            return f"{text}; check PostgreSQL and the network"
        if isinstance(cause, OSError) or not state:
            return f"{_MEANINGS['08']} ({_one_line(cause)})"
        return f"PostgreSQL answers {_one_line(cause)} (SQLSTATE {state})"


def _engine(url: str, busy_timeout_s: float, statement_s: float) -> AsyncEngine:
    async def connect() -> asyncpg.Connection:
        try:
            return await asyncpg.connect(
                url,
                timeout=busy_timeout_s,
                command_timeout=statement_s,
                server_settings={"application_name": "leveret"},
            )
        except TimeoutError:
            raise TimeoutError(f"did not answer within {busy_timeout_s:g} s") from None

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        pool_size=POOL,
        max_overflow=POOL,
        pool_timeout=busy_timeout_s,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _state(error: BaseException) -> str:
    """Return the SQLSTATE of an error; an empty text if it has none."""
    cause = getattr(error, "orig", error)
    return getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or ""


def _shown(url: str) -> str:
    """Return *url* without user, password and options."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    return f"postgresql://{hosts}{parts.path}"


def _one_line(error: object) -> str:
    """Return the server's message without its DETAIL, which contains values."""
    text = str(error).partition("\nDETAIL:")[0]
    return re.sub(r"\s+", " ", text or type(error).__name__)[:200]
