"""The rate of one worker: the requests that it starts in a second, to all endpoints together.

Data flow: Intake asks :meth:`Rate.room` before it starts a job. Endpoints asks for each target, reports each
request that starts, and reserves times for the targets of a wide event that find no room.

Source: S1-11.
"""

from __future__ import annotations

from consumer.core.endpoint.rate_limit import per_second
from consumer.core.endpoint.reservations import spread


class Rate:
    """The rate of this worker; all times are Unix seconds."""

    def __init__(self, per_s: float, burst: int | None) -> None:
        """Begin with a whole burst.

        Args:
            per_s: Requests a second, more than 0.
            burst: Requests that may start together; None: as many as the rate allows in 0.1 s, at least 2.
        """
        self._limit = per_second(per_s, burst)
        self._free_at = 0.0  #: from here on nothing is reserved

    def room(self, now: float) -> int:
        """Return how many requests may start now."""
        return self._limit.room(now)

    def opens_at(self, now: float) -> float:
        """Return when the next request may start."""
        return self._limit.opens_at(now)

    def sent(self, now: float) -> None:
        """Count a request that starts."""
        self._limit = self._limit.sent(now)

    def reserve(self, now: float) -> float:
        """Reserve the next time at which a request may start, another one for each caller."""
        self._free_at, at = spread(self._free_at, now, self.opens_at(now), self._limit.interval_s)
        return at

    def set_back(self, by_s: float) -> None:
        """Keep the rest of each wait: the wall clock was set back by so many seconds."""
        self._limit, self._free_at = self._limit.set_back(by_s), self._free_at - by_s


def limited(per_s: float | None, burst: int | None) -> Rate | None:
    """Return a rate, or None where *per_s* is None."""
    return None if per_s is None else Rate(per_s, burst)
