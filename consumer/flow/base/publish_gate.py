"""The gate before every publish of the flow: open until the daemon is forced to end, then shut in two steps.

What is published and not acked comes again, and is published a second time. So a forced end begins nothing
more, and gives what has begun a moment to be confirmed and acked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

BEGUN_S = 0.5  #: what has begun to be stored gets this long, a job with many targets as a whole
CONFIRM_S = 0.25  #: after that what the broker has not confirmed yet gets this long
ACK_S = 0.25  #: the acks get this long to reach the broker
ROUNDS = 20  #: turns of the loop from a confirm to the ack of its message, and some more


class PublishGate:
    """Counts what is being stored."""

    def __init__(self) -> None:
        self._begun = 0
        self._published = 0
        self._shut = False
        self._held = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def enter(self) -> None:
        """Begin to store something; once the gate is shut this never returns."""
        if self._shut:
            await _for_ever()
        self._begun += 1
        self._quiet.clear()

    def leave(self) -> None:
        """It is stored, or was given up."""
        self._begun -= 1
        self._look()

    async def publish(self, publishing: Awaitable[None]) -> None:
        """Publish; once the gate is held no publish begins any more."""
        if self._held:
            if asyncio.iscoroutine(publishing):
                publishing.close()
            await _for_ever()
        self._published += 1
        try:
            await publishing
        finally:
            self._published -= 1
            self._look()

    async def last_moment(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Let what has begun be confirmed and acked; at most a second.

        Args:
            flush: Returns once every ack is with the broker.
        """
        self._shut = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), BEGUN_S)
        self._held = True
        self._look()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), CONFIRM_S)
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        with suppress(TimeoutError):
            await asyncio.wait_for(flush(), ACK_S)

    def _look(self) -> None:
        if not (self._published if self._held else self._begun):
            self._quiet.set()


async def _for_ever() -> None:
    await asyncio.Event().wait()
