"""Keep the books of each worker in a small file in memory, so that a killed process loses none of them.

Data flow: the file of the worker's port, or the first free one -> lock -> check -> mmap -> :class:`Books`. A
write to the map is a write to memory: the kernel keeps it when the process is killed, and writes it to the
disk in its time. After a power cut the file may be some seconds old.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from consumer.core.books import CELLS, Books

HEAD: Final = struct.pack("=8sq", b"LVRBOOK1", CELLS)
"""The start of each file, in the byte order of the machine. Another layout gets another start."""

SIZE_BYTES: Final = len(HEAD) + 8 * CELLS
FILES_MAX: Final = 1_000  #: workers that can share a folder


class BooksReports(Protocol):
    """Takes what happens to the file of the books."""

    def opened(self, path: str, interrupted: tuple[int, int]) -> None:
        """This worker goes on with a file; so many targets were in flight when its last process ended."""

    def put_aside(self, path: str, detail: str) -> None:
        """A file is not the books of a worker; it has another name now."""

    def unkept(self, folder: str, error: OSError) -> None:
        """No file can be written: the books begin at zero, and end with the process."""


@dataclass(frozen=True, slots=True)
class _Locked:
    """A file that only this process writes to, as long as its handle is open."""

    path: Path
    handle: int


class BooksFolder:
    """The folder with one file for each worker that shares it."""

    def __init__(self, folder: Path, observe: BooksReports, port: int = 0) -> None:
        """Bind to a folder.

        Args:
            folder: May be missing.
            observe: Takes reports.
            port: That this worker listens on: its file has this number. 0: the number of the first free file.
        """
        self._folder = folder
        self._own = self._numbered(port)
        self._has_port = port > 0
        self._observe = observe
        self._kept: list[_Locked] = []  #: never closed: the lock ends with the process

    def open(self) -> Books:
        """Return the books in this worker's file, or else in the first that is free; raise nothing."""
        try:
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # *mode* ignores the parents
            self._folder.mkdir(mode=0o700, exist_ok=True)
            locked = self._inherited() or self._first_free()
            self._kept.append(locked)
            books = Books(memoryview(mmap.mmap(locked.handle, SIZE_BYTES))[len(HEAD) :].cast("q"))
        except OSError as error:  # also of a file system without maps
            self._observe.unkept(str(self._folder), error)
            return Books()
        self._observe.opened(str(locked.path), books.interrupt())
        return books

    def _numbered(self, number: int) -> Path:
        return self._folder / f"worker-{number}.books"

    def _inherited(self) -> _Locked | None:
        """Return a free file without a port in its name, renamed to this worker's; None where it has its own.

        Raises:
            OSError: a file takes no lock.
        """
        if not self._has_port or self._own.exists():
            return None
        for path in filter(Path.exists, map(self._numbered, range(FILES_MAX))):
            locked = self._lock(path)
            if locked is not None:
                return _renamed(locked, self._own)
        return None

    def _first_free(self) -> _Locked:
        """Return this worker's file, or else the first that is free; locked, with a worker's books in it.

        Raises:
            OSError: the folder takes no file or no lock, or all files are taken.
        """
        for path in (self._own, *map(self._numbered, range(FILES_MAX))):
            locked = self._lock(path) or self._lock(path)  # again, where a bad file was put aside
            if locked is not None:
                return locked
        raise OSError(f"{FILES_MAX} workers share the folder, or the files cannot be read")

    def _lock(self, path: Path) -> _Locked | None:
        """Open and lock a file; None where another worker has it, or it was put aside."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        is_kept = False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_kept = _is_at(handle, path) and self._is_sound(handle, path)
        except BlockingIOError:
            return None
        finally:
            if not is_kept:
                os.close(handle)
        return _Locked(path, handle) if is_kept else None

    def _is_sound(self, handle: int, path: Path) -> bool:
        """Return whether a locked file holds the books of a worker; begin a new one, put a bad one aside."""
        content = os.pread(handle, SIZE_BYTES + 1, 0)
        if not content:
            _write_whole(handle, HEAD + bytes(8 * CELLS))
            return True
        fault = _fault(content)
        if fault is None:
            return True
        aside = path.with_suffix(".unreadable")
        path.replace(aside)
        self._observe.put_aside(str(aside), fault)
        return False


def _renamed(locked: _Locked, path: Path) -> _Locked:
    """Rename a locked file, unless *path* exists by now: another worker may have it."""
    try:
        path.hardlink_to(locked.path)
        locked.path.unlink()
    except OSError:
        return locked
    return _Locked(path, locked.handle)


def _is_at(handle: int, path: Path) -> bool:
    """Return whether the open file is the one at *path*: another worker may have put it aside."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _fault(content: bytes) -> str | None:
    """Return why *content* is not the books of a worker; None where it is."""
    if len(content) != SIZE_BYTES:
        return f"it does not have {SIZE_BYTES} bytes"
    if not content.startswith(HEAD):
        return "it was written by another program or version"
    return Books(list(struct.unpack_from(f"={CELLS}q", content, len(HEAD)))).fault()


def _write_whole(handle: int, content: bytes) -> None:
    """Write *content* to the disk, so that no page of the map lacks room later.

    Raises:
        OSError: the disk has no room.
    """
    if os.pwrite(handle, content, 0) != len(content):
        raise OSError("the disk took only a part of the books")
    os.fsync(handle)
