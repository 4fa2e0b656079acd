"""Run what holds messages so that an interruption gives them back before the process ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


def run_to_the_end(step: Coroutine[Any, Any, _T]) -> _T:
    """Return what *step* returns. SIGINT and SIGTERM cancel it once; a second SIGINT ends it at once.

    Raises:
        KeyboardInterrupt: it was cancelled, and has cleaned up.
        Exception: of *step*.
    """

    async def run() -> _T:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await step

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
