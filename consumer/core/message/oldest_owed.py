"""Remember the oldest undelivered event among the deliveries that were seen within the last minute.

Data flow: failed and deferred attempts -> :class:`OldestOwed` -> the gauge of stuck deliveries.

Source: S2-4.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

SLICE_S: Final = 5.0
"""Events that were seen within one slice are forgotten together."""
KEPT_SLICES: Final = 12


class OldestOwed:
    """The oldest arrival of the last minute; a delivery on the ladder is seen only when it comes back."""

    def __init__(self) -> None:
        self._oldest: deque[float] = deque([inf], maxlen=KEPT_SLICES)  #: Unix seconds, one for each slice
        self._since = -inf

    def saw(self, arrived_at: float) -> None:
        """Take in a delivery that is still owed; *arrived_at* is the arrival of its event, Unix seconds."""
        self._oldest[-1] = min(self._oldest[-1], arrived_at)

    def age_s(self, in_flight_at: float, now: float) -> float:
        """Return the age of the oldest event, 0 where nothing is owed.

        Args:
            in_flight_at: The oldest arrival among the requests in flight, Unix seconds; infinity: none.
            now: Unix seconds.
        """
        oldest = min(in_flight_at, *self._oldest)
        if not 0 <= now - self._since < SLICE_S:  # also where the clock was set back
            self._since = now
            self._oldest.append(inf)
        return 0.0 if oldest == inf else max(now - oldest, 0.0)
