"""The clock, the archive file and the failpoints: the small edges."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from consumer.core.errors import ConfigError

FAILPOINTS = (
    "after-take",
    "before-publish",
    "after-publish-before-confirm",
    "after-confirm-before-ack",
    "during-request",
    "after-2xx-before-ack",
)
"""Windows in which the crash tests kill the daemon."""

WRITTEN_S = 0.02  #: what a failpoint waits for, so that what was just started is on the wire


class SystemClock:
    """The real time."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run *callback* on the running loop after *delay_s*."""
        return asyncio.get_running_loop().call_later(delay_s, callback).cancel


class FileArchive:
    """Appends expired parked entries to one JSON-lines file per month."""

    def __init__(self, folder: Path, clock: SystemClock) -> None:
        self._folder = folder
        self._clock = clock

    async def append(self, entry: Mapping[str, object]) -> None:
        """Write and sync one line, off the event loop."""
        line = orjson.dumps(entry, default=str) + b"\n"
        await asyncio.to_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        month = time.strftime("%Y-%m", time.gmtime(self._clock.now()))
        path = self._folder / f"expired-{month}.jsonl"
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)


class Failpoint:
    """Kills the process at the n-th passing of one named window; for crash tests only."""

    def __init__(self, text: str) -> None:
        """Read ``<window>`` or ``<window>:<n>``.

        Raises:
            ConfigError: there is no such window, or n is no positive number.
        """
        self.window, _, times = text.partition(":")
        if self.window not in FAILPOINTS:
            raise ConfigError(f"failpoint: {self.window!r} is not one of {', '.join(FAILPOINTS)}")
        if times and (not times.isdecimal() or int(times) < 1):
            raise ConfigError(f"failpoint: {times!r} is not a number from 1 on")
        self._left = int(times or 1)

    async def reach(self, window: str) -> None:
        """Pass *window*; the last time ends the process as ``kill -9`` would."""
        if window != self.window:
            return
        self._left -= 1
        if self._left == 0:
            if window in ("after-publish-before-confirm", "during-request"):
                await asyncio.sleep(WRITTEN_S)
            os.kill(os.getpid(), signal.SIGKILL)
