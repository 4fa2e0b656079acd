"""Shut every publish of the flow off, in two steps, once the daemon is forced to end.

A message whose publishes are confirmed, and which is not acked, comes again, and they are published twice. So
a forced end begins no publish any more, and gives those that have begun a moment to be confirmed and acked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

BEGUN_S = 0.5  #: publishes that have begun get this long, those of one job as a whole
CONFIRM_S = 0.25  #: after that, publishes without a confirm get this long
ACK_S = 0.25  #: the acks get this long to reach the broker
ROUNDS = 20  #: turns of the loop from a confirm to the ack of its message, with a reserve


class PublishGate:
    """Counts the publishes that have begun."""

    def __init__(self) -> None:
        self._begun = 0
        self._published = 0
        self._shut = False
        self._held = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def enter(self) -> None:
        """Begin a publish; once the gate is shut this never returns."""
        if self._shut:
            await _for_ever()
        self._begun += 1
        self._quiet.clear()

    def leave(self) -> None:
        """End a publish: it is confirmed, or was given up."""
        self._begun -= 1
        self._look()

    async def publish(self, publishing: Awaitable[None]) -> None:
        """Publish; in the second step this never returns."""
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
        """Let publishes that have begun be confirmed and acked; at most a second.

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
