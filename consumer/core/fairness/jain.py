"""Measure how evenly deliveries are shared: Jain's index of the tenants that waited for a whole minute.

Data flow: the tenants that wait and the deliveries of each so far, once a second -> Minute -> Jain.

Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness", DEC-TR-301, 1984.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

MINUTE_S: Final = 60.0


class Jain(NamedTuple):
    """Jain's index of one minute."""

    value: float  #: 1 when all tenants got the same, 1/n when one of n got all
    tenants: int  #: tenants that had work in hand for the whole minute


def jain(amounts: Collection[float]) -> float:
    """Return Jain's index of *amounts*, each at least 0: 1 where all are equal, and where there are none."""
    largest = max(amounts, default=0.0)
    if not largest:
        return 1.0
    parts = [amount / largest for amount in amounts]  # squares of very small amounts would be 0
    return sum(parts) ** 2 / (len(parts) * sum(part * part for part in parts))


class Minute:
    """Collects the looks of a minute; times are monotonic seconds."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._waiting: set[str] = set()  #: tenants that waited at every look of this minute
        self._before: Mapping[str, float] = {}

    def look(self, waiting: Collection[str], done: Mapping[str, float], now: float) -> Jain | None:
        """Take in one look; return the index of the minute that ends with it, otherwise None.

        Args:
            waiting: Tenants that have work in hand.
            done: The deliveries of each tenant so far, over its weight.
            now: Monotonic seconds.
        """
        found = None
        if self._since is not None:
            self._waiting.intersection_update(waiting)
            if now - self._since < MINUTE_S:
                return None
            got = [done.get(t, 0.0) - self._before.get(t, 0.0) for t in self._waiting]
            found = Jain(jain([max(0.0, amount) for amount in got]), len(got))
        self._since, self._waiting, self._before = now, set(waiting), dict(done)
        return found
