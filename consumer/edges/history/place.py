"""Define where rows are kept, and open it. The child that writes rows imports this: it stays small.

Data flow: Settings -> :class:`HistoryPlace` -> :class:`.sqlite_history.SqliteHistory` or PostgresHistory.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from consumer.edges.history.sqlite_history import SqliteHistory

if TYPE_CHECKING:
    from consumer.edges.history.postgres_history import PostgresHistory


def new_writer() -> str:
    """Return the name of a new writer of batches."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """A SQLite file in the state folder, or a PostgreSQL database."""

    home: Path  #: the state folder
    url: str | None = field(repr=False)  #: ``postgresql://...`` with its password; None for SQLite
    busy_timeout_s: float  #: longest wait for another writer, or for a connection

    def open(self, writer: str = "") -> SqliteHistory | PostgresHistory:
        """Return the history; nothing is read or created before its first use.

        Args:
            writer: Name under which the store notes the numbers of batches; empty: a new one.
        """
        writer = writer or new_writer()
        if self.url is None:
            return SqliteHistory(self.home, self.busy_timeout_s, writer)
        from consumer.edges.history.postgres_history import PostgresHistory  # noqa: PLC0415 (costs 40 MB)

        return PostgresHistory(self.url, self.busy_timeout_s, writer)
