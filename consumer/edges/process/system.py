"""Provide the clock and the archive files of a process."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import orjson

from consumer.ports import Clock


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> float:
        """Return Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run *callback* on the running loop after *delay_s*; return a function that cancels it."""
        return asyncio.get_running_loop().call_later(delay_s, callback).cancel


class FileArchive:
    """Appends deliveries that leave the broker undelivered to one JSON-lines file per month.

    Entries that come during a write are written and synced together.
    """

    def __init__(self, folder: Path, clock: Clock, stem: str = "expired") -> None:
        """Bind to a folder; the names of its files begin with *stem*."""
        self._folder = folder
        self._clock = clock
        self._stem = stem
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def append(self, entry: Mapping[str, object]) -> None:
        """Write and sync one line, off the event loop.

        Raises:
            OSError: the disk refused the line; none of it is left in the file.
        """
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((_one_line(entry), written))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        await written

    async def _write_all(self) -> None:
        while self._waiting:
            lines, self._waiting = self._waiting, []
            fault: OSError | None = None
            try:
                await asyncio.to_thread(self._write, b"".join(line for line, _ in lines))
            except OSError as error:
                fault = error
            except Exception as error:  # a bug: no caller may wait for ever
                fault = OSError(f"the archive cannot be written: {error!r}")
            _answer(lines, fault)

    def _write(self, lines: bytes) -> None:
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # *mode* ignores the parents
        self._folder.mkdir(mode=0o700, exist_ok=True)
        month = time.strftime("%Y-%m", time.gmtime(self._clock.now()))
        path = self._folder / f"{self._stem}-{month}.jsonl"
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # another worker may share the folder; close() unlocks
            _append_whole(handle, lines)
        finally:
            os.close(handle)


def _answer(lines: Sequence[tuple[bytes, asyncio.Future[None]]], fault: OSError | None) -> None:
    """End the wait of each caller that was not cancelled."""
    for _, written in lines:
        if not written.done():
            if fault is None:
                written.set_result(None)
            else:
                written.set_exception(fault)


def _append_whole(handle: int, lines: bytes) -> None:
    """Append *lines* to a locked file and sync it, or leave the file as it was."""
    before_bytes = os.fstat(handle).st_size
    try:
        _write_whole(handle, lines)
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, before_bytes)
        raise


def _write_whole(handle: int, line: bytes) -> None:
    """Write *line*. A disk that becomes full takes a part of it without an error. Source: write(2)."""
    if os.write(handle, line) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _one_line(entry: Mapping[str, object]) -> bytes:
    try:
        return orjson.dumps(entry, default=str) + b"\n"
    except TypeError:  # numbers over 64 bits or lone surrogates, which a foreign entry may contain
        return json.dumps(entry, default=str).encode() + b"\n"
