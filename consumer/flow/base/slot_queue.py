"""Bound the requests in flight; requests that find no free slot queue for one.

Data flow: one queue bounds all requests of the worker, and one the requests to each endpoint. Attempts waits
in both, for the slot of the endpoint first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import cached_property
from math import inf


class SlotQueue:
    """A number of slots; requests that wait for one get it in the order in which they came.

    Attributes:
        capacity: How many slots there are.
        free: How many of them are free; negative after :meth:`resize` took some away that are in use.
    """

    def __init__(
        self, capacity: int, *, patience_s: float = inf, on_free: Callable[[], None] | None = None
    ) -> None:
        """Begin with all slots free.

        Args:
            capacity: How many slots there are, at least 1.
            patience_s: Longest wait for a slot.
            on_free: Called when a slot becomes free and no request waits for it.
        """
        self.capacity = capacity
        self.free = capacity
        self._patience_s = patience_s
        self._on_free = on_free
        #: The waiting requests, each with the loop time at which it gives up.
        self._queue: deque[tuple[asyncio.Future[bool], float]] = deque()
        self._sweep: asyncio.TimerHandle | None = None

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # kept: each call costs a system call

    @property
    def in_flight(self) -> int:
        """How many slots are taken."""
        return self.capacity - self.free

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._queue)

    def take(self) -> None:
        """Take a slot that is free."""
        self.free -= 1

    async def acquire(self) -> bool:
        """Take a slot, after all others that wait for one.

        Returns:
            False without a slot: none came within the patience of this queue.
        """
        if self.free > 0 and not self._queue:
            self.free -= 1
            return True
        turn: asyncio.Future[bool] = self._loop.create_future()
        self._queue.append((turn, self._ends_at()))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.release()
            raise

    def release(self) -> None:
        """Give the slot to the next in the queue, or back."""
        while self._queue and self.free >= 0:
            turn, _ = self._queue.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self.free += 1
        if self._on_free is not None:
            self._on_free()

    def resize(self, capacity: int) -> None:
        """Change how many slots there are; those in use stay so until they are released."""
        self.free += capacity - self.capacity
        self.capacity = capacity

    def _ends_at(self) -> float:
        """Return the end of a wait that begins now, and see to it that it ends then."""
        if self._patience_s == inf:
            return inf
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._patience_s, self._send_away)
        return self._loop.time() + self._patience_s

    def _send_away(self) -> None:
        """End the waits that have lasted for too long: one timer for the queue, not one for each wait."""
        now, self._sweep = self._loop.time(), None
        while self._queue and (self._queue[0][0].done() or self._queue[0][1] <= now):
            turn, _ = self._queue.popleft()
            if not turn.done():
                turn.set_result(False)
        if self._queue:
            self._sweep = self._loop.call_at(self._queue[0][1], self._send_away)
