"""Read the index of parked entries from the store's SQLite file, also one that an earlier release made.

Data flow: ``leveret.db`` -> one SELECT -> :class:`ParkedRow`; the same rows as
:meth:`consumer.edges.store.SqlStore.parked_index` returns, which a test compares.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from typing import Any

from consumer.core.errors import StoreGone, StoreUnavailable
from consumer.core.message.records import ParkedRow
from consumer.edges.sqlite_file.file import READ_WRITE, STILL, SqliteFile

_HAS_STORE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'leveret_schema'"
_VERSION = "SELECT version_num FROM leveret_schema"
_COLUMNS = "SELECT name FROM pragma_table_info('leveret_parked_index')"
_ROWS = "SELECT {} FROM leveret_parked_index WHERE expires_at > ? ORDER BY parked_at DESC, id DESC"


def read_parked(file: SqliteFile, busy_timeout_s: float, now: float) -> Sequence[ParkedRow]:
    """Return the rows of the index that have not expired, newest first; none before a store exists.

    Args:
        file: The file to read.
        busy_timeout_s: Longest wait for another process that has the file locked.
        now: Unix seconds.

    Raises:
        StoreUnavailable: the file cannot be read.
    """
    try:
        if file.is_new():
            return ()
        try:
            return _read(file.name(READ_WRITE), busy_timeout_s, now)
        except sqlite3.Error as error:
            if not file.is_still(error):
                raise
            return _read(file.name(STILL), busy_timeout_s, now)
    except (sqlite3.Error, OSError) as error:
        fault = StoreGone if file.is_gone(error) else StoreUnavailable
        raise fault(f"{file.path}: {file.explain(error)}") from error


def _read(name: str, busy_timeout_s: float, now: float) -> Sequence[ParkedRow]:
    opened = sqlite3.connect(name, uri=True, timeout=busy_timeout_s, isolation_level=None)
    with closing(opened) as connection:
        connection.execute("BEGIN")
        if (
            connection.execute(_HAS_STORE).fetchone() is None
            or connection.execute(_VERSION).fetchone() is None
        ):
            return ()
        there = {name for (name,) in connection.execute(_COLUMNS)}
        names = [field.name for field in fields(ParkedRow) if field.name in there]
        rows = connection.execute(_ROWS.format(", ".join(names) or "*"), (now,))
        return tuple(_row(dict(zip(names, row, strict=True))) for row in rows)


def _row(values: dict[str, Any]) -> ParkedRow:
    values["subscription_ids"] = tuple(values["subscription_ids"].split())
    return ParkedRow(**values)
