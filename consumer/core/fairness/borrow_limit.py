"""Limit how much of a worker one tenant may borrow while no other tenant waits.

Data flow: the tenants that were served lately, the lag of the worker's loop -> BorrowLimit ->
Accounts.set_borrow_limit.

A tenant that is alone gets the whole capacity. Where other tenants come and go, a tenth stays free for them.
While the loop lags, the worker's CPU is the bottleneck: more requests in flight make nothing faster, and only
delay the next event of another tenant. So the limit shrinks then, down to the cap of a tenant.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from consumer.core.fairness.accounts import Caps

OTHERS_S: Final = 60.0
"""A tenant without work for this long is idle: no slot is reserved for it."""
LATE_S: Final = 0.01
"""The limit shrinks above this lag: an event passes through the loop about three times before it is sent."""
SHRINK: Final = 0.75  #: each check multiplies the limit by this once per LATE_S of lag
GROW_RATIO: Final = 1 / 64  #: each check without lag adds this part of the capacity


class BorrowLimit:
    """The limit of one worker; checked some times a second."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._most = caps.capacity - caps.reserved
        self._limit = float(self._most)
        self._seen: dict[str, float] = {}

    def served(self, tenants: Collection[str], now: float) -> None:
        """Take in the tenants that had work since the last call; *now* in monotonic seconds."""
        self._seen |= dict.fromkeys(tenants, now)
        self._seen = {tenant: at for tenant, at in self._seen.items() if now - at < OTHERS_S}

    @property
    def alone(self) -> bool:
        """Whether at most one tenant had work lately."""
        return len(self._seen) <= 1

    def update(self, late_s: float) -> int:
        """Adapt the limit to the lag; return it in deliveries that one tenant may have in flight.

        Args:
            late_s: The lag of the worker's loop, seconds.
        """
        caps = self._caps
        if self.alone:
            self._limit = float(self._most)
            return caps.capacity
        if late_s > LATE_S:
            self._limit = max(float(min(caps.floor, self._most)), self._limit * SHRINK ** (late_s / LATE_S))
        else:
            self._limit = min(float(self._most), self._limit + caps.capacity * GROW_RATIO)
        return int(self._limit)
