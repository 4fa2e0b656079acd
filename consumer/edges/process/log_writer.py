"""Write log lines in a thread of their own, so that an unread pipe or a full disk never stops a delivery.

Data flow: lines -> the batch in hand -> the bounded buffer -> thread -> one system call for many lines.
"""

from __future__ import annotations

import atexit
import select
import threading
import time
from collections.abc import Callable
from io import FileIO
from typing import Any, BinaryIO, Final

FLUSH_S: Final = 0.1  #: the longest that a line waits for company while more are logged
BUFFER_BYTES: Final = 8 * 1024 * 1024  #: of lines that wait for whoever reads the log; more are dropped
RETRY_S: Final = 0.5  #: pause after a write that failed
EXIT_S: Final = 1.0  #: the longest that the end of the process waits for the last lines


class LogWriter:
    """Takes whole lines and writes them together: a system call for each would be felt at thousands a second.

    A line waits for company for :data:`FLUSH_S` at most, and not at all from level warning on. Once
    :data:`BUFFER_BYTES` wait, further lines are dropped and counted; a line that gives their number takes
    their place as soon as there is room.
    """

    def __init__(self, target: BinaryIO, lost: Callable[[int], bytes]) -> None:
        """Start the thread.

        Args:
            target: Written by that thread alone.
            lost: Renders the line that takes the place of so many dropped ones.
        """
        self.dropped = 0  #: lines, since the start
        self._sink = _Sink(target)
        self._lost = lost
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._handed_over_at = 0.0
        self._buffer: list[bytes] = []
        self._waiting_bytes = 0  #: in the buffer, or being written
        self._gap = 0  #: lines that were dropped since the last one that was kept
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.close, EXIT_S)

    def debug(self, line: bytes) -> None:
        """Take a line that may wait."""
        self._batch.append(line)
        self._batch_bytes += len(line) + 1
        if time.monotonic() - self._handed_over_at > FLUSH_S:
            self.hand_over()

    info = debug

    def warning(self, line: bytes) -> None:
        """Take a line that is handed over at once, behind those that wait."""
        self._batch.append(line)
        self._batch_bytes += len(line) + 1
        self.hand_over()

    error = critical = warning

    def hand_over(self) -> None:
        """Give the batch to the thread, or drop it where too much waits already; never waits."""
        self._handed_over_at = time.monotonic()
        if not self._batch:
            return
        lines, size = self._batch, self._batch_bytes
        self._batch, self._batch_bytes = [], 0
        with self._changed:
            if self._closed or (self._waiting_bytes and self._waiting_bytes + size > BUFFER_BYTES):
                self._drop(len(lines))
                return
            self._buffer += lines
            self._waiting_bytes += size
            self._changed.notify_all()

    def flush(self, limit_s: float) -> bool:
        """Return whether every line left within *limit_s*."""
        self.hand_over()
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting_bytes, limit_s)

    def close(self, limit_s: float) -> None:
        """Write what waits, within *limit_s*, and end the thread once it can end."""
        self.flush(limit_s)
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _drop(self, lines: int) -> None:
        self.dropped += lines
        self._gap += lines

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._buffer or self._gap or self._closed)
                lines, self._buffer = self._buffer, []
                gap, self._gap = self._gap, 0
                size = self._waiting_bytes
            if not (lines or gap):
                return
            notes = [self._lost(gap)] if gap else []
            written = self._sink.write(b"\n".join([*notes, *lines, b""]))
            with self._changed:
                self._waiting_bytes -= size
                if not written:
                    self._gap += gap
                    self._drop(len(lines))
                    self._changed.notify_all()
                    if self._changed.wait_for(lambda: self._closed, RETRY_S):
                        return
                self._changed.notify_all()


class _Sink:
    """Writes whole pieces, without a buffer whose lock a blocked thread would hold when the process ends."""

    def __init__(self, target: BinaryIO) -> None:
        try:
            self._raw: Any = FileIO(target.fileno(), "wb", closefd=False)
        except (OSError, ValueError):  # in memory
            self._raw = target

    def write(self, data: bytes) -> bool:
        """Write *data*; a full disk, a closed pipe or a terminal that went away lose it, and nothing else."""
        left = memoryview(data)
        try:
            while left:
                count = self._raw.write(left)
                if count is None:  # somebody made it non-blocking, and it is full
                    select.select([], [self._raw], [])
                else:
                    left = left[count:]
        except (OSError, ValueError):
            return False
        return True
