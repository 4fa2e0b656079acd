"""Let requests with the same key take turns; requests with other keys do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Queue:
    """The requests with one key."""

    users: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def enter(self) -> None:
        """Count one more request."""
        self.users += 1

    def leave(self) -> None:
        """Count one request less."""
        self.users -= 1


class Turns:
    """The keys of the requests in flight; a key is forgotten with its last request."""

    def __init__(self) -> None:
        """Begin without a request."""
        self._queues: dict[Hashable, _Queue] = {}

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for the earlier requests with *key*."""
        queue = self._queues.setdefault(key, _Queue())
        queue.enter()
        try:
            async with queue.turn:
                yield
        finally:
            queue.leave()
            if not queue.users:
                del self._queues[key]
