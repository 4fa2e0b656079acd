"""Count the deliveries that this worker stored for later, by the time at which each comes back.

Data flow: deferred and failed deliveries -> :meth:`WaitingTimes.add` -> gauges of waiting deliveries.

A delivery that comes back, to whichever worker, and waits once more is stored once more. So the counts of
the workers add up to the deliveries that wait. Those that a killed worker stored are missing until they come
back.
"""

from __future__ import annotations

from math import ceil
from typing import Final

NARROW_S: Final = 5  #: width of the slices of time for waits of up to a minute
WIDE_S: Final = 60  #: for waits of up to an hour
WIDEST_S: Final = 900  #: for longer ones


def slice_end(until: float, now: float) -> int:
    """Return the end of the slice of time in which a delivery comes back; all times are Unix seconds."""
    wait_s = until - now
    width_s = NARROW_S if wait_s <= 60.0 else WIDE_S if wait_s <= 3_600.0 else WIDEST_S
    return ceil(until / width_s) * width_s


class WaitingTimes:
    """The deliveries that wait, by the slice of time in which they come back."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: dict[int, list[float]] = {}  #: by the slice's end: deliveries, and the oldest arrival

    def add(self, end: int, arrived_at: float) -> None:
        """Count a delivery that comes back before *end*, see :func:`slice_end`.

        Args:
            end: Unix seconds.
            arrived_at: When its event arrived, Unix seconds.
        """
        found = self._slices.get(end)
        if found is None:
            self._slices[end] = [1, arrived_at]
            return
        found[0] += 1
        found[1] = min(found[1], arrived_at)

    def subtract(self, freed: WaitingTimes) -> None:
        """Count no longer the deliveries in *freed*, all of which are in here unless their time is over."""
        for end, (count, _) in freed._slices.items():
            found = self._slices.get(end)
            if found is not None:
                found[0] -= count
                if found[0] <= 0:
                    del self._slices[end]

    def move(self, into: WaitingTimes) -> None:
        """Count all deliveries in *into* instead of here."""
        for end, (count, oldest_at) in self._slices.items():
            found = into._slices.setdefault(end, [0, oldest_at])
            found[0] += count
            found[1] = min(found[1], oldest_at)
        self.clear()

    def take(self, most: int) -> WaitingTimes:
        """Count at most so many deliveries no longer, those that come back last first; return them."""
        taken = WaitingTimes()
        for end in sorted(self._slices, reverse=True):
            held, oldest_at = self._slices[end]
            count = min(held, most)
            if count <= 0:
                break
            taken._slices[end] = [count, oldest_at]
            most -= int(count)
        self.subtract(taken)
        return taken

    def clear(self) -> None:
        """Forget all deliveries: they come back soon, or are over."""
        self._slices.clear()

    def count(self, now: float) -> int:
        """Return how many deliveries wait at *now* (Unix seconds)."""
        self._forget(now)
        return int(sum(count for count, _ in self._slices.values()))

    def oldest_at(self, now: float) -> float | None:
        """Return the earliest arrival among the events of waiting deliveries; None: no delivery waits."""
        self._forget(now)
        return min((arrived_at for _, arrived_at in self._slices.values()), default=None)

    def _forget(self, now: float) -> None:
        over = [end for end in self._slices if end <= now]
        for end in over:
            del self._slices[end]
