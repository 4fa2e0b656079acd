"""Distinguish a cancellation of the running task from one that the AMQP library made.

The library cancels the calls on a connection that closes. Their callers then see ``CancelledError``, although
nobody asked them to end.
"""

from __future__ import annotations

import asyncio


def is_asked_to_end() -> bool:
    """Return whether somebody cancelled the running task itself."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
