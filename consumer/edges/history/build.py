"""Open the history that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.edges.history.history_store import (
    HistoryStore,
    HistoryTarget,
    Limits,
    SettledReader,
    SumReader,
)
from consumer.edges.history.sqlite_history import SqliteHistory
from consumer.edges.history.writing_process import WritingProcess
from consumer.settings import Settings
from consumer.settings.load import child_environment

if TYPE_CHECKING:
    from consumer.edges.history.postgres_history import PostgresHistory


def open_history(settings: Settings) -> HistoryStore:
    """Return the history of *settings*; nothing is read or created before its first use.

    Raises:
        ConfigError: a file in the settings cannot be read.
    """
    return _open(settings)


def open_sums(settings: Settings) -> SumReader:
    """Return a reader of sums over a connection of its own: some of its queries take long.

    Raises:
        ConfigError: a file in the settings cannot be read.
    """
    return _open(settings)


def open_settled(settings: Settings) -> SettledReader:
    """Return a reader of settled events over a connection of its own, beside the one that writes.

    Raises:
        ConfigError: a file in the settings cannot be read.
    """
    return _open(settings)


def open_target(settings: Settings) -> HistoryTarget:
    """Return a writer of rows; nothing is started, read or created before its first use.

    A child process writes to SQLite. With PostgreSQL it would cost 76 MB of memory.

    Raises:
        ConfigError: a file in the settings cannot be read.
    """
    if settings.postgres_url() is None:
        return WritingProcess(settings.home, settings.store.busy_timeout_s, child_environment())
    return _open(settings)


def _open(settings: Settings) -> SqliteHistory | PostgresHistory:
    url = settings.postgres_url()
    if url is None:
        return SqliteHistory(settings.home, settings.store.busy_timeout_s)
    from consumer.edges.history.postgres_history import PostgresHistory  # noqa: PLC0415 (costs 5 MB)

    return PostgresHistory(url, settings.store.busy_timeout_s)


def limits_of(settings: Settings) -> Limits:
    """Return the limits of the history in *settings*."""
    return Limits(settings.history.max_age_s, settings.history.max_rows)
