"""Write log lines in their own thread, so that an unread pipe or a full disk never stops a delivery.

Data flow: lines -> the bounded batch -> thread -> one system call for many lines.
"""

from __future__ import annotations

import atexit
import select
import threading
import time
from collections.abc import Callable
from io import FileIO
from typing import Any, BinaryIO, Final

FLUSH_S: Final = 0.1  #: longest time that a line waits in a batch while more lines come
BUFFER_BYTES: Final = 8 * 1024 * 1024  #: size of the lines that wait to be written; further ones are dropped
HAND_OVER_BYTES: Final = 512 * 1024  #: more lines do not wait for others
RETRY_S: Final = 0.5  #: pause after a failed write
EXIT_S: Final = 1.0  #: longest wait for the last lines when the process ends


class LogWriter:
    """Writes whole lines in batches, as one system call per line would slow down thousands of lines a second.

    A line waits in a batch for at most :data:`FLUSH_S`, and not at all from level warning on. When
    :data:`BUFFER_BYTES` wait, further lines are dropped and counted. As soon as there is room, one line
    reports their number.
    """

    def __init__(self, target: BinaryIO, lost: Callable[[int], bytes]) -> None:
        """Start the thread.

        Args:
            target: Stream that only this thread writes.
            lost: Renders the line that reports a number of dropped lines.
        """
        self.dropped = 0  #: lines since the start
        self._sink = _Sink(target)
        self._lost = lost
        self._lines: list[bytes] = []  #: not taken by the thread yet
        self._is_due = False  #: whether the thread is to take the lines
        self._flushes = 0  #: callers that wait until all lines are written
        self._handed_over_at = 0.0
        self._waiting_bytes = 0  #: of all lines that are not written, whether due or not
        self._gap = 0  #: dropped lines since the last kept one
        self._lock = threading.RLock()  #: a finalizer may log in the middle of a line's call
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.close, EXIT_S)

    def debug(self, line: bytes) -> None:
        """Add a line that may wait in the batch; a full buffer drops it."""
        size = len(line) + 1
        with self._lock:
            if self._closed or (self._waiting_bytes and self._waiting_bytes + size > BUFFER_BYTES):
                self._drop(1)
            else:
                self._lines.append(line)
                self._waiting_bytes += size
        if self._waiting_bytes > HAND_OVER_BYTES or time.monotonic() - self._handed_over_at > FLUSH_S:
            self.hand_over()

    info = debug

    def warning(self, line: bytes) -> None:
        """Add a line, and hand the batch over at once."""
        self.debug(line)
        self.hand_over()

    error = critical = warning

    def hand_over(self) -> None:
        """Let the thread write the batch; this never blocks."""
        self._handed_over_at = time.monotonic()
        with self._changed:
            if not self._is_due and (self._lines or self._gap):
                self._is_due = True
                self._changed.notify_all()

    def flush(self, limit_s: float) -> bool:
        """Write all waiting lines; return whether that took at most *limit_s*."""
        with self._changed:
            self._flushes += 1
            self.hand_over()
            is_written = self._changed.wait_for(lambda: not self._waiting_bytes, limit_s)
            self._flushes -= 1
        return is_written

    def close(self, limit_s: float) -> None:
        """Write all waiting lines and let the thread end, for at most *limit_s*."""
        end_at = time.monotonic() + limit_s
        self.flush(limit_s)
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(max(0.0, end_at - time.monotonic()))  # else it may end with the lock

    def _drop(self, lines: int) -> None:
        self.dropped += lines
        self._gap += lines

    def _has_work(self) -> bool:
        return self._is_due or self._closed or bool(self._flushes and self._lines)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                self._is_due = False
                lines, self._lines = self._lines, []
                gap, self._gap = self._gap, 0
                size, count = self._waiting_bytes, len(lines)
            if gap:
                lines.insert(0, self._lost(gap))
            written = self._sink.write(_text_of(lines))
            with self._changed:
                self._waiting_bytes -= size
                if not written:
                    self._gap += gap
                    self._drop(count)
                    self._is_due = True  # for the note
                self._changed.notify_all()
                if not written:
                    self._changed.wait_for(lambda: self._closed, RETRY_S)
                if self._closed and (not written or not self._lines):
                    self._drop(len(self._lines))
                    self._lines.clear()
                    self._waiting_bytes = 0
                    self._changed.notify_all()
                    return


def _text_of(lines: list[bytes]) -> bytes:
    """Return *lines*, each with a newline, and clear them: a slow reader would keep them in memory twice."""
    lines.append(b"")
    text = b"\n".join(lines)
    lines.clear()
    return text


class _Sink:
    """Writes unbuffered: at exit, a blocked thread would hold the lock of a buffer."""

    def __init__(self, target: BinaryIO) -> None:
        try:
            self._raw: Any = FileIO(target.fileno(), "wb", closefd=False)
        except (OSError, ValueError):  # an in-memory stream
            self._raw = target

    def write(self, data: bytes) -> bool:
        """Write *data*; return False if a full disk, a closed pipe or a vanished terminal lost it."""
        left = memoryview(data)
        try:
            while left:
                count = self._raw.write(left)
                if count is None:  # the stream was made non-blocking, and it is full
                    select.select([], [self._raw], [])
                else:
                    left = left[count:]
        except (OSError, ValueError):
            return False
        return True
