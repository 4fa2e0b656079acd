"""The global bound on HTTP requests in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Slots:
    """So many requests at a time. First come, first served."""

    def __init__(self, capacity: int, on_free: Callable[[], None]) -> None:
        self.free = capacity
        self.capacity = capacity
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._on_free = on_free

    async def acquire(self) -> None:
        """Take a slot, waiting in line when none is free."""
        if self.free > 0:
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a slot to the next in line, or back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1
        self._on_free()
