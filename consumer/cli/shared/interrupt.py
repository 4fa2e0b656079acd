"""Run a step that holds messages; an interruption lets it give them back before the process ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


def run_to_the_end(step: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of *step*. SIGINT and SIGTERM cancel it once; a second SIGINT ends it at once.

    Raises:
        KeyboardInterrupt: a signal cancelled *step*, and it has cleaned up.
        Exception: any error of *step*.
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
