"""Measure the lag of the event loop: the worst of the last minute.

A look every 10 ms finds each longer stop, to within 10 ms; one look a second, as a scrape would make, misses
nearly all of them. A look costs some 10 us.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

LOOK_S = 0.01
SLICE_S = 5.0  #: measurements of so long are forgotten together
KEPT_SLICES = 12


class LoopLag:
    """Looks at the running loop, as long as that runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._worst: deque[float] = deque([0.0], maxlen=KEPT_SLICES)  #: seconds, one for each slice
        self._slice_ends = time.monotonic() + SLICE_S
        self._due = time.monotonic() + LOOK_S
        self._loop.call_later(LOOK_S, self._look)

    def worst_s(self) -> float:
        """Return how late the latest look of the last minute was, in seconds."""
        return max(self._worst)

    def _look(self) -> None:
        now = time.monotonic()  # not the loop's clock, which does not move during a callback
        self._worst[-1] = max(self._worst[-1], now - self._due)
        if now >= self._slice_ends:
            self._worst.append(0.0)
            self._slice_ends = now + SLICE_S
        self._due = now + LOOK_S
        self._loop.call_later(LOOK_S, self._look)
