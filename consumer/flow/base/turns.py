"""Let a bounded number of publishes be under way, and take the turn of each that waits for long.

A publish to a stuck queue may wait for a minute. It keeps its turn for :data:`KEPT_S` only, so that some
hundred such publishes do not stop all others. Whether it may be written is then up to the publisher, which
bounds the publishes to each queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

KEPT_S = 0.5  #: longest time for which a publish has its turn while others wait


class Turn:
    """One turn."""

    __slots__ = ("_turns",)

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    async def __aenter__(self) -> None:
        await self._turns.take(self)

    async def __aexit__(self, *_: object) -> None:
        self._turns.give_back(self)


class Turns:
    """The turns of one worker, in the order in which they were asked for."""

    def __init__(self, most: int) -> None:
        """Begin with all turns free.

        Args:
            most: Publishes under way at once.
        """
        self._most = most
        self._taken: dict[Turn, float] = {}  #: loop time at which each turn began, oldest first
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._looking: asyncio.TimerHandle | None = None

    def under_way(self) -> int:
        """Return how many turns are taken."""
        return len(self._taken)

    def turn(self) -> Turn:
        """Return a turn: ``async with`` waits for it, and keeps it for :data:`KEPT_S` at least."""
        return Turn(self)

    async def take(self, turn: Turn) -> None:
        """Wait until *turn* may begin."""
        if self._waiters or len(self._taken) >= self._most:
            await self._wait()
        self._taken[turn] = asyncio.get_running_loop().time()

    def give_back(self, turn: Turn) -> None:
        """End *turn*, unless it was taken away."""
        if self._taken.pop(turn, None) is not None:
            self._wake()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._look_later()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake()
            with suppress(ValueError):
                self._waiters.remove(waiter)
            raise

    def _wake(self) -> None:
        """Let the next one in, if there is room; it takes its turn in the same pass of the loop."""
        while self._waiters and len(self._taken) < self._most:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _look_later(self) -> None:
        if self._looking is None and self._taken:
            loop, first = asyncio.get_running_loop(), next(iter(self._taken.values()))
            self._looking = loop.call_at(max(first + KEPT_S, loop.time()), self._look)

    def _look(self) -> None:
        """Take the turns that were kept for long while others wait."""
        self._looking = None
        if not self._waiters:
            return
        before = asyncio.get_running_loop().time() - KEPT_S
        for mark in [mark for mark, began in self._taken.items() if began <= before]:
            del self._taken[mark]
            self._wake()
        self._look_later()
