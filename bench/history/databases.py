"""The databases that the proofs of the history run on: a SQLite file, and a PostgreSQL of their own."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from consumer.edges.history.build import open_history
from consumer.edges.history.history_store import HistoryStore
from consumer.edges.history.sqlite_history import FILE_NAME
from consumer.settings import load_settings
from tests.support.processes.postgres import Postgres


@dataclass(slots=True)
class SqliteFile(AbstractAsyncContextManager["SqliteFile"]):
    """``history.db`` in the home of the daemons; another process can lock it."""

    home: Path
    name: str = "sqlite"
    settings: Mapping[str, str] = field(default_factory=dict)
    _locked: sqlite3.Connection | None = None

    async def __aenter__(self) -> SqliteFile:
        self.home.mkdir(parents=True, exist_ok=True)
        self.settings = {"LEVERET_HOME": str(self.home)}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.give()

    async def take(self) -> None:
        """Lock the file."""
        self._locked = sqlite3.connect(self.home / FILE_NAME, isolation_level=None)
        self._locked.execute("BEGIN IMMEDIATE")

    async def give(self) -> None:
        """Release it."""
        if self._locked is not None:
            self._locked.close()
            self._locked = None

    async def counted(self) -> Counter[tuple[str, str, str]]:
        """Return how many rows there are of each step, event and subscription."""
        with closing(sqlite3.connect(self.home / FILE_NAME)) as connection:
            return Counter(connection.execute(STEPS).fetchall())

    async def rows(self) -> int:
        """Return how many rows there are."""
        with closing(sqlite3.connect(self.home / FILE_NAME)) as connection:
            return int(connection.execute(COUNT).fetchone()[0])


@dataclass(slots=True)
class PostgresNode(AbstractAsyncContextManager["PostgresNode"]):
    """A PostgreSQL that writes through to its disk; it can be stopped."""

    home: Path
    name: str = "postgres"
    settings: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    _node: Postgres = field(default_factory=lambda: Postgres(durable=True))

    async def __aenter__(self) -> PostgresNode:
        self._node.create()
        await self._node.start()
        self.url = await self._node.database()
        self.settings = {"LEVERET_HOME": str(self.home), "LEVERET_DATABASE_URL": self.url}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._node.remove()

    async def take(self) -> None:
        """Stop the server."""
        await self._node.stop()

    async def give(self) -> None:
        """Start it again."""
        await self._node.start()

    async def counted(self) -> Counter[tuple[str, str, str]]:
        """Return how many rows there are of each step, event and subscription."""
        connection = await asyncpg.connect(self.url)
        try:
            return Counter(tuple(row) for row in await connection.fetch(STEPS))
        finally:
            await connection.close()

    async def rows(self) -> int:
        """Return how many rows there are."""
        connection = await asyncpg.connect(self.url)
        try:
            return int(await connection.fetchval(COUNT))
        finally:
            await connection.close()


COUNT = "SELECT count(*) FROM leveret_history"
STEPS = "SELECT step, event_id, subscription_id FROM leveret_history"


def history_of(database: SqliteFile | PostgresNode) -> HistoryStore:
    """Return a history on *database*, as a command would open it."""
    return open_history(load_settings(dict(database.settings)))
