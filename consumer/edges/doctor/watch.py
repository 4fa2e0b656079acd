"""End `leveret doctor` in time, whatever hangs: the event loop, a thread, or the end of the interpreter.

Data flow: a block of code -> a thread that counts its seconds -> the end of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def watched(limit_s: float, at_limit: Callable[[], int], leave: Callable[[int], object]) -> Iterator[None]:
    """End the process if the block takes longer than *limit_s*.

    A file on a dead network drive, or a named pipe, can block the event loop or one of its threads. Python
    would wait for such a thread at its end, and cannot stop it.

    Args:
        limit_s: Longest time of the block, in seconds.
        at_limit: Prints the results so far and returns the exit code; another thread than the block's calls
            it.
        leave: Ends the process with an exit code, without waiting for anything, such as ``os._exit``.
    """
    ended = Event()

    def watch() -> None:
        if not ended.wait(limit_s):
            code = 1
            try:
                code = at_limit()
            finally:
                leave(code)

    Thread(target=watch, name="doctor-watch", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
