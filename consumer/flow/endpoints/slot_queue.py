"""The slots of one endpoint, and who waits in line for one.

Data flow: Endpoint takes a slot when it admits a request; Attempts waits for one where it was told to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import cached_property

from consumer.flow.base.loop import running_loop

LINE_FACTOR = 4  #: a slot that was expected within ``quick_wait_s`` is waited for this many times longer
SHORTEST_LINE_S = 0.1


class SlotQueue:
    """Slots, first come, first served.

    Attributes:
        slots: How many there are.
        in_flight: How many are taken.
    """

    _loop = cached_property(running_loop)

    def __init__(self, slots: int, quick_wait_s: float) -> None:
        self.slots = slots
        self.in_flight = 0
        self._patience_s = max(LINE_FACTOR * quick_wait_s, SHORTEST_LINE_S)
        self._silent_since: float | None = None  #: Unix seconds; requests are out, and none has ended since
        self._queue: deque[tuple[asyncio.Future[bool], float]] = (
            deque()
        )  #: who waits, and until which loop time
        self._sweep: asyncio.TimerHandle | None = None

    async def slot(self) -> bool:
        """Wait in line for a slot of this endpoint; no global slot may be held meanwhile.

        Returns:
            False without a slot: the slots are held for longer than the latency let expect.
        """
        if self.in_flight < self.slots and not self._queue:
            self._take_slot(None)
            return True
        loop = self._loop
        turn: asyncio.Future[bool] = loop.create_future()
        self._queue.append((turn, loop.time() + self._patience_s))
        if self._sweep is None:
            self._sweep = loop.call_later(self._patience_s, self._send_away)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.release()
            raise

    def release(self) -> None:
        """Give the slot to the next in line, or back."""
        while self._queue and self.in_flight <= self.slots:
            turn, _ = self._queue.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self.in_flight -= 1

    def _send_away(self) -> None:
        """Tell those who have stood in line for too long: one timer for the line, not one for each."""
        now, self._sweep = self._loop.time(), None
        while self._queue and (self._queue[0][0].done() or self._queue[0][1] <= now):
            turn, _ = self._queue.popleft()
            if not turn.done():
                turn.set_result(False)
        if self._queue:
            self._sweep = self._loop.call_at(self._queue[0][1], self._send_away)

    def _take_slot(self, now: float | None) -> None:
        if not self.in_flight:
            self._silent_since = now
        self.in_flight += 1

    def _silent_s(self, now: float) -> float:
        """Return for how long requests have been out of which none has ended; each takes at least that."""
        since = self._silent_since
        return now - since if since is not None and self.in_flight else 0.0
