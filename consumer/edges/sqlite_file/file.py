"""The place of the store's SQLite file: whether it is new or lost, and its errors in plain words.

A mark beside the file records that a store existed: a missing file is then a fault, not an empty store.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Hashable
from pathlib import Path
from urllib.parse import quote

from consumer.core.errors import StoreGone

FILE_NAME = "leveret.db"
MARK_NAME = "store.made"

READ_WRITE = "mode=rw"
STILL = "mode=ro&immutable=1"
"""Reads a file that nobody changes, without an index of its log."""

_MEANINGS = {
    sqlite3.SQLITE_BUSY: "is locked by another process; find it with `fuser -v` on the file, and try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process; find it with `fuser -v` on the file, and try again",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is not a valid SQLite file; restore it from a backup",
    sqlite3.SQLITE_READONLY: "cannot be written; check the rights of file, folder and mount",
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check the rights of file and folder, and the disk",
    sqlite3.SQLITE_IOERR: "the disk fails to read or write; check the system's log and the free space",
    sqlite3.SQLITE_PERM: "cannot be opened; check the rights of file and folder",
}

_CANNOT_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)


class SqliteFile:
    """``leveret.db`` in the state folder, and the mark beside it. Nothing is opened here.

    Attributes:
        path: The file.
        log: Its write-ahead log.
        mark: The file that records that a store existed.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / FILE_NAME
        self.log = home / f"{FILE_NAME}-wal"
        self.mark = home / MARK_NAME

    def name(self, how: str) -> str:
        """Return the URI that opens the file in the way *how*: :data:`READ_WRITE` or :data:`STILL`."""
        return f"file:{quote(os.fsencode(self.path.absolute()))}?{how}"

    def identity(self) -> Hashable:
        """Return a value that differs once the file is replaced or written over, or its log is replaced.

        Changes are appended to the log, and move into the file rarely. Without a file or a log it is None.
        """
        try:
            file, log = self.path.stat(), self.log.stat()
        except OSError:
            return None
        return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, log.st_ino

    def is_new(self) -> bool:
        """Return whether nobody has created the file yet.

        Raises:
            StoreGone: it existed and has disappeared.
        """
        try:
            self.path.stat()
        except FileNotFoundError:
            self.demand_fresh()
            return True
        return False

    def demand_fresh(self) -> None:
        """Check that no store existed here.

        Raises:
            StoreGone: one did.
        """
        if self.mark.exists():
            raise StoreGone(f"{self.path}: {self.gone()}")

    def gone(self) -> str:
        """Return fault and remedy for a file that has disappeared."""
        return f"has gone or is empty; restore it from a backup, or remove {self.mark} to begin a new store"

    def is_still(self, error: BaseException) -> bool:
        """Return whether *error* comes from a full or read-only disk without a writer: read as :data:`STILL`.

        Source: SQLite, "Write-Ahead Logging", read-only databases (readers make an index of the log).
        """
        return _code(error) in _CANNOT_WRITE and not self._log_size_bytes()

    def _log_size_bytes(self) -> int:
        try:
            return self.log.stat().st_size
        except FileNotFoundError:
            return 0

    def is_gone(self, error: BaseException) -> bool:
        """Return whether *error* means that the file, or tables in it, have disappeared."""
        return not self.path.exists() or "no such table" in str(getattr(error, "orig", error))

    def explain(self, error: BaseException) -> str:
        """Return fault and remedy of *error* in one line, without stored data."""
        cause = getattr(error, "orig", error)
        if isinstance(cause, OSError):
            return f"{cause.strerror or cause}; check that the file exists and that you may read and write it"
        if not self.path.exists():
            return self.gone()
        if isinstance(cause, sqlite3.Error):
            meaning = _MEANINGS.get(_code(cause))
            if meaning is None and self.is_gone(cause):
                meaning = "holds no store; restore it from a backup"
            return meaning or f"SQLite answers {cause}"
        return str(cause)


def _code(error: BaseException) -> int:
    """Return SQLite's primary result code; 0 for any other error."""
    return int(getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)) & 0xFF
