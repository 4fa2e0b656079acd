"""The stores that the contract suite is run on, and the entries that it puts into them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from consumer.core.changes.file import parse_subscriptions
from consumer.core.changes.merge import Merge, StoredEntry, merge
from consumer.core.errors import StoreUnavailable
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription, subscription_id
from consumer.core.webhook.signing import format_secret
from consumer.edges.history.build import open_history, open_settled, open_sums
from consumer.edges.history.history_store import HistoryStore, SettledReader, SumReader
from consumer.edges.sqlite_file.file import FILE_NAME
from consumer.edges.store import SqlStore, StoreLookup, open_lookup, open_store
from consumer.ports import Store
from consumer.settings import Settings, load_settings
from tests.support.fakes_store import Step

REMEDY = "; "  #: separates a fault from its remedy

RULES = SubscriptionRules()
SHOP = subscription_id("acme", "shop")


class AnyStore(Store, Protocol):
    """A store with the methods of the command line."""

    async def entries(self) -> Sequence[StoredEntry]:
        """Return the stored entries."""

    async def change(self, step: Step, *, write: bool = True) -> Merge:
        """Give the stored entries to a pure step, and store its result."""


@dataclass(slots=True)
class Place:
    """A home, and the database of a test; every store that is opened here shares it."""

    home: Path
    url: str = ""  #: of PostgreSQL; empty: SQLite in the home
    environ: dict[str, str] = field(default_factory=dict)
    opened: list[SqlStore] = field(default_factory=list)
    histories: list[HistoryStore] = field(default_factory=list)
    lookups: list[StoreLookup] = field(default_factory=list)
    sum_readers: list[SumReader] = field(default_factory=list)
    readers: list[SettledReader] = field(default_factory=list)

    def open(self, **environ: str) -> SqlStore:
        """Return another store on the same database, as another process would have it.

        Args:
            environ: Settings, such as ``STORE__KEY``; they stay for those that are opened later.
        """
        self.environ |= {f"LEVERET_{name}": value for name, value in environ.items()}
        self.opened.append(open_store(self._settings()))
        return self.opened[-1]

    def open_history(self) -> HistoryStore:
        """Return another history on the same database, as another process would have it."""
        self.histories.append(open_history(self._settings()))
        return self.histories[-1]

    def open_sums(self) -> SumReader:
        """Return a reader of sums, as the API would have it."""
        self.sum_readers.append(open_sums(self._settings()))
        return self.sum_readers[-1]

    def open_settled(self) -> SettledReader:
        """Return a reader of the settled events, as another worker would have it."""
        self.readers.append(open_settled(self._settings()))
        return self.readers[-1]

    def open_lookup(self) -> StoreLookup:
        """Return a reader of the same database, as a command would have it."""
        self.lookups.append(open_lookup(self._settings()))
        return self.lookups[-1]

    def _settings(self) -> Settings:
        base = {"LEVERET_HOME": str(self.home), "LEVERET_STORE__BUSY_TIMEOUT_S": "30"}
        if self.url:
            base["LEVERET_DATABASE_URL"] = self.url
        return load_settings(base | self.environ)

    @property
    def file(self) -> Path:
        """The SQLite file."""
        return self.home / FILE_NAME

    async def close(self) -> None:
        """Close every store."""
        for store in self.opened:
            await store.close()
        for history in self.histories:
            await history.close()
        for lookup in self.lookups:
            await lookup.close()
        for reader in self.readers:
            await reader.close()
        for summing in self.sum_readers:
            await summing.close()


def shop(**fields: object) -> dict[str, object]:
    """Return one entry, changed by *fields*."""
    return {"tenant": "acme", "name": "shop", "url": "https://shop.example/", "events": ["#"], **fields}


def many(count: int) -> Sequence[dict[str, object]]:
    """Return *count* entries of one tenant."""
    return [shop(name=f"n{n:04d}", url=f"https://n{n}.example/") for n in range(count)]


def wanted(*entries: dict[str, object]) -> Sequence[SubscriptionEntry]:
    """Return *entries* as read from a file."""
    return parse_subscriptions(json.dumps({"subscriptions": list(entries)}), "f", RULES).entries


def random_secret() -> str:
    """Return a new secret."""
    return format_secret(os.urandom(32))


async def apply(
    store: AnyStore,
    *entries: dict[str, object],
    prune: bool = False,
    enable: bool = False,
    make_secret: Callable[[], str] = random_secret,
) -> Merge:
    """Bring *entries* into *store* as the command line does."""
    of_file = wanted(*entries)
    return await store.change(lambda kept: merge(kept, of_file, make_secret, prune=prune, enable=enable))


def by_id(subscriptions: Sequence[Subscription]) -> dict[str, Subscription]:
    """Return *subscriptions* by their id."""
    return {subscription.id: subscription for subscription in subscriptions}


def engine_of(place: Place) -> AsyncEngine:
    """Return an engine on the test's database, without the schema of Leveret."""
    url = place.url.replace("postgresql:", "postgresql+asyncpg:") or f"sqlite+aiosqlite:///{place.file}"
    return create_async_engine(url)


async def execute(place: Place, statement: str) -> None:
    """Run a statement on the database itself."""
    engine = engine_of(place)
    async with engine.begin() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


LATER_TABLES = {
    "0004": ("leveret_holds",),
    "0005": ("leveret_generations", "leveret_tombstones"),
    "0006": ("leveret_history", "leveret_history_writers"),
    "0008": ("leveret_jobs", "leveret_job_entries"),
    "0009": ("leveret_tokens", "leveret_audit"),
    "0010": ("leveret_publish_keys",),
    "0013": ("leveret_sessions",),
}
"""Tables by the schema that made them."""

FIRST_WITH = {name: number for number, names in LATER_TABLES.items() for name in names}
"""The schema that made a later table."""

LATER_COLUMNS = {
    "0007": ("leveret_parked_index", ("replays", "messages", "shown")),
    "0011": ("leveret_jobs", ("total",)),
    "0012": ("leveret_publish_keys", ("claimed_until",)),
    "0014": ("leveret_subscriptions", ("disabled_itself",)),
}
"""Table and columns by the schema that added them to a table of before."""


async def take_back(place: Place, schema: str) -> None:
    """Turn the store into one of an earlier release, by its schema."""
    for number, names in LATER_TABLES.items():
        for name in names if number > schema else ():
            await execute(place, f"DROP TABLE IF EXISTS {name}")
    for number, (table, names) in LATER_COLUMNS.items():
        for name in names if number > schema >= FIRST_WITH.get(table, "") else ():
            await execute(place, f"ALTER TABLE {table} DROP COLUMN {name}")
    await execute(place, f"UPDATE leveret_schema SET version_num = '{schema}'")  # noqa: S608 (ours)


def copied(path: Path) -> Path:
    """Return a copy of the store, made as a backup is."""
    copy = path.with_name("backup.db")
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def put_back(path: Path, copy: Path) -> None:
    """Put the copy in the place of the file or folder there, and delete the copy."""
    if path.is_dir():
        path.rmdir()
    for log in ("-wal", "-shm"):
        path.with_name(path.name + log).unlink(missing_ok=True)
    shutil.copyfile(copy, fresh := path.with_name("fresh.db"))
    fresh.chmod(0o600)
    fresh.replace(path)
    copy.unlink()


async def refused(store: SqlStore, told: str) -> None:
    """Every write fails with one line that matches *told* and names a remedy."""
    for write in (apply(store, shop(timeout_s=9)), store.disable(SHOP, "HTTP 410"), store.rekey()):
        with pytest.raises(StoreUnavailable, match=told) as error:
            await write
        assert "\n" not in str(error.value)
        assert REMEDY in str(error.value)


async def unreadable(store: SqlStore, told: str) -> None:
    """Reading and writing fail with one line that matches *told*."""
    for read in (store.load(), store.entries(), store.changed(), store.endpoint_states()):
        with pytest.raises(StoreUnavailable, match=told):
            await read
    await refused(store, told)


async def on(url: str, statement: str) -> None:
    """Run a statement as an operator would."""
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()
