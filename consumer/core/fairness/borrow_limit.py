"""How much of the worker one tenant may borrow while nobody else waits.

Data flow: who was served lately, how late the worker's loop is -> Lender -> Accounts.borrow, the reserve.

A tenant that is alone has everything. Beside others that come and go a tenth stays free for them. Where the
worker's own time is what is short (its loop runs late), more requests in flight make nothing faster: they
only stand before the next event of somebody else. So less is lent then, down to what a tenant has by right.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from consumer.core.fairness.accounts import Caps

OTHERS_S: Final = 60.0
"""A tenant without work for this long is idle: nothing is kept for it."""
LATE_S: Final = 0.01
"""The loop is late from here on: an event passes through it five times or so before it is sent."""
SHRINK: Final = 0.75  #: what is lent, at each look, to the power of how many LATE_S the loop is late
GROW_RATIO: Final = 1 / 64  #: of the capacity, lent more at each look at which it is not


class BorrowLimit:
    """Decides; looked at some times a second."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._most = caps.capacity - caps.reserved
        self._lent = float(self._most)
        self._seen: dict[str, float] = {}

    def served(self, tenants: Collection[str], now: float) -> None:
        """Take in who had work since the last call; *now* in monotonic seconds."""
        self._seen |= dict.fromkeys(tenants, now)
        self._seen = {tenant: at for tenant, at in self._seen.items() if now - at < OTHERS_S}

    @property
    def alone(self) -> bool:
        """Whether no more than one tenant had work lately."""
        return len(self._seen) <= 1

    def lend(self, late_s: float) -> int:
        """Return how many deliveries one tenant may have in flight where nobody else waits.

        Args:
            late_s: How late the worker's loop woke.
        """
        caps = self._caps
        if self.alone:
            self._lent = float(self._most)
            return caps.capacity
        if late_s > LATE_S:
            self._lent = max(float(min(caps.floor, self._most)), self._lent * SHRINK ** (late_s / LATE_S))
        else:
            self._lent = min(float(self._most), self._lent + caps.capacity * GROW_RATIO)
        return int(self._lent)
