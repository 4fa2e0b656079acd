"""The running loop, asked for once by each who needs it for every message: asking costs a system call."""

from __future__ import annotations

import asyncio


def running_loop(_asker: object) -> asyncio.AbstractEventLoop:
    """Return the loop, for ``_loop = cached_property(running_loop)`` in a class.

    Raises:
        RuntimeError: none runs.
    """
    return asyncio.get_running_loop()
