"""Open the SQLite file for a writer or for readers.

Data flow: SQLAlchemy -> aiosqlite, in its thread -> one of these classes as the ``factory`` of sqlite3.
"""

from __future__ import annotations

import sqlite3
from typing import Any

_PRAGMAS = ("foreign_keys = ON", "synchronous = FULL")


class Opened(sqlite3.Connection):
    """The file, open for a user who begins each transaction."""

    def __init__(self, *place: Any, **options: Any) -> None:
        """Open the file; the arguments are those of :func:`sqlite3.connect`."""
        super().__init__(*place, **options)
        self.isolation_level = None  # the driver begins no transactions by itself
        try:
            self._set_up()
        except sqlite3.Error:
            self.close()
            raise

    def _set_up(self) -> None:
        for pragma in _PRAGMAS:
            self.execute(f"PRAGMA {pragma}")


class OpenedToRead(Opened):
    """The file, open for readers. The end of a transaction begins the next, which saves a step in the thread.

    A transaction locks nothing before its first read. Source: SQLite, "Transaction", DEFERRED.
    """

    def rollback(self) -> None:
        """End the transaction, and begin the next."""
        super().rollback()
        self.execute("BEGIN")

    def _set_up(self) -> None:
        super()._set_up()
        self.execute(
            "SELECT 1 FROM sqlite_master LIMIT 1"
        ).fetchall()  # a read shows whether the disk allows one
        self.execute("BEGIN")
