"""Keep subscriptions with their secrets, endpoint states, and the index of parked entries. Decision 24."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from consumer.edges.store.changes import Step
from consumer.edges.store.database import Database
from consumer.edges.store.keys import Keys, KeyUse, Rekeyed
from consumer.edges.store.lookup import StoreLookup
from consumer.edges.store.options import StoreOptions
from consumer.edges.store.recorder import StoreRecorder
from consumer.edges.store.rows.records import Records
from consumer.edges.store.sqlite import SqliteDatabase
from consumer.edges.store.store import SqlStore
from consumer.settings import Settings

__all__ = [
    "KeyUse",
    "Rekeyed",
    "SqlStore",
    "Step",
    "StoreLookup",
    "StoreOptions",
    "StoreRecorder",
    "open_lookup",
    "open_store",
    "opened_lookup",
    "opened_store",
]


def open_store(settings: Settings) -> SqlStore:
    """Return the store of *settings*; nothing is read or created before its first use.

    Raises:
        ConfigError: a file in the settings cannot be read.
    """
    key = settings.store.key
    keys = Keys(settings.home, None if key is None else key.get_secret_value(), settings.store.key_file)
    database = _database(settings)
    records = Records(database, settings.store.parked_index_max)
    options = StoreOptions(settings.subscription_rules(), settings.topology.parked_ttl_s)
    return SqlStore(database, keys, records, options)


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[SqlStore]:
    """Give the store of *settings*, and close it afterwards: for commands.

    Raises:
        ConfigError: as :func:`open_store`.
    """
    store = open_store(settings)
    try:
        yield store
    finally:
        await store.close()


def open_lookup(settings: Settings) -> StoreLookup:
    """Return a reader of the store of *settings*; nothing is opened before its first use.

    Raises:
        ConfigError: a file in the settings cannot be read.
    """
    return StoreLookup(_database(settings))


@asynccontextmanager
async def opened_lookup(settings: Settings) -> AsyncIterator[StoreLookup]:
    """Give a reader of the store of *settings*, and close it afterwards: for commands.

    Raises:
        ConfigError: as :func:`open_lookup`.
    """
    lookup = open_lookup(settings)
    try:
        yield lookup
    finally:
        await lookup.close()


def _database(settings: Settings) -> Database:
    url = settings.postgres_url()
    if url is None:
        return SqliteDatabase(settings.home, settings.store.busy_timeout_s)
    from consumer.edges.store.postgres import PostgresDatabase  # noqa: PLC0415 (its driver costs 5 MB)

    return PostgresDatabase(url, settings.store.busy_timeout_s)
