"""The rate of one worker: the requests that it starts in a second, to all endpoints together.

Data flow: Intake asks :meth:`Rate.room` before it starts a job; Endpoints asks for each target, says what was
sent, and puts off what a wide event has beyond the room.

Source: S1-11.
"""

from __future__ import annotations

from consumer.core.endpoint import pace as clock
from consumer.core.endpoint.pace import Pace


class Rate:
    """What is left of it."""

    def __init__(self, per_s: float, burst: int | None) -> None:
        """Begin with a whole burst.

        Args:
            per_s: Requests a second, more than 0.
            burst: Requests that may start together; None: what the rate sends in 0.1 s, at least 2.
        """
        self._clock = clock.with_rate(Pace(), per_s, burst, 1)
        self._free_at = 0.0  #: Unix seconds; no moment from here on was given out

    def room(self, now: float) -> int:
        """Return how many requests may start now; *now* is in Unix seconds, here and below."""
        return clock.room(self._clock, now)

    def opens_at(self, now: float) -> float:
        """Return when the next request may start."""
        return clock.opens_at(self._clock, now)

    def sent(self, now: float) -> None:
        """Count a request that starts."""
        self._clock = clock.sent(self._clock, now)

    def moment(self, now: float) -> float:
        """Give out the next moment at which a request may start, one to each that asks."""
        opens_at = self.opens_at(now)
        self._free_at, at = clock.spread(self._free_at, now, opens_at, self._clock.interval_s)
        return at

    def set_back(self, by_s: float) -> None:
        """The wall clock was set back by so many seconds: what is left of each wait stays."""
        self._clock, self._free_at = clock.set_back(self._clock, by_s), self._free_at - by_s


def limited(per_s: float | None, burst: int | None) -> Rate | None:
    """Return a rate; None for none."""
    return None if per_s is None else Rate(per_s, burst)
