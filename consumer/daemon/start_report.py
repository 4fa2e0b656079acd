"""Report the start of a worker: each step that takes long, then the addresses of the ready worker.

Data flow: the step that is under way, or the reason for which the worker is not ready -> log lines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import structlog

from consumer.tasks import end

T = TypeVar("T")

SLOW_S: Final = 2.0  #: a step of the start that lasts longer is reported
PAUSE_MAX_S: Final = 60.0  #: longest pause between two reports of one step; the pauses double up to it
LOOK_S: Final = 0.1


class StartReport:
    """Reports on one start.

    Args:
        log: A logger of structlog; None makes one.
        now: Returns monotonic seconds.
        sleep: Waits for so many seconds.
    """

    def __init__(
        self,
        log: Any = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._log = structlog.get_logger() if log is None else log
        self._now = now
        self._sleep = sleep
        self._began = now()

    async def step(self, reason: str, work: Awaitable[T]) -> T:
        """Return the result of *work*, and report it as *reason* while it lasts."""
        watching = asyncio.create_task(self._watch(lambda: reason))
        try:
            return await work
        finally:
            await end([watching])

    async def run(self, unready: Callable[[], str | None], urls: Mapping[str, str]) -> None:
        """Report every reason that lasts, then once that the worker is ready; never return.

        Args:
            unready: Returns why the worker is not ready, or None.
            urls: Of the worker, by what they serve.
        """
        await self._watch(unready)
        self._log.info("daemon.ready", **urls, after_s=round(self._now() - self._began, 2))
        await asyncio.Event().wait()

    async def _watch(self, reason: Callable[[], str | None]) -> None:
        """Report each reason that lasts, until there is none."""
        last: str | None = None
        since_s = due_s = pause_s = 0.0
        while (why := reason()) is not None:
            now = self._now()
            if why != last:
                last, since_s, pause_s, due_s = why, now, SLOW_S, now + SLOW_S
            if now >= due_s:
                self._log.info("daemon.waiting", reason=why, waited_s=round(now - since_s, 1))
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
                due_s = now + pause_s
            await self._sleep(LOOK_S)
