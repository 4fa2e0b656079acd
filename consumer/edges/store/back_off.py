"""Compute how long a routine pauses before it tries a store again that was away."""

from __future__ import annotations

import asyncio


class BackOff:
    """Pauses that double with each failure up to a longest, and begin anew after a success."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def worked(self) -> None:
        """Begin anew."""
        self._next_s = self._first_s

    async def failed(self) -> None:
        """Pause."""
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        await asyncio.sleep(pause_s)
