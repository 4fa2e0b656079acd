"""The moments that one endpoint gives out to the deliveries that it holds, and how often these look again.

    held -> a moment of its own, at most about a minute after the hold ends -> looks again
    held for longer (a long cooldown, a turn under a rate) -> looks on its way whether its moment still holds

Data flow: Endpoint takes a moment for each Hold; FanOut asks for the distance of looks; an operator, a
recovery or a changed setting frees the moments, and what has an older one is admitted anew at its next look.
"""

from __future__ import annotations

from consumer.core.endpoint import pace as clock
from consumer.core.subscription.subscription import Subscription

LOOK_S = 60.0  #: what is held for longer looks on its way whether its moment still holds, first after this
LOOK_INTERVAL_S = 0.05  #: those looks come no closer: what they cost is bounded, however much waits
GOLDEN_RATIO = 0.618034  #: its multiples divide a span evenly, however many there are
ROUNDING_S = 0.01  #: delivery messages carry whole milliseconds


class Reservations:
    """Moments in Unix seconds. They may be freed at any time: the pace bounds what is sent, not they."""

    def __init__(self) -> None:
        self.free_at = 0.0  #: no moment from here on was given out
        self._part = 0.0
        self._looks_at = 0.0  #: no look from here on was given out
        self._freed_at = 0.0  #: whatever was given out before this is void

    def take(self, now: float, earliest: float, interval_s: float, least_s: float) -> float:
        """Give out the next moment from *earliest* on; see :func:`consumer.core.endpoint.pace.spread_within`.

        Where moments crowd at the end of their span each is moved back by a part of it, so that a crowd that
        came at once does not come back as one.
        """
        earliest = max(now, earliest)
        self.free_at, at = clock.spread_within(self.free_at, earliest, interval_s, least_s)
        if interval_s <= least_s or at - earliest <= clock.AHEAD_S / 2:
            return at
        self._part = (self._part + GOLDEN_RATIO) % 1
        return at - self._part * clock.AHEAD_S / 2

    def look_s(self, now: float) -> float:
        """Give out the next look on the way; return after how many seconds it is, :data:`LOOK_S` at least.

        Where much waits the looks lie further apart for each of it, as the reservations of a queue do.
        """
        self._looks_at, at = clock.spread(self._looks_at, now, now + LOOK_S, LOOK_INTERVAL_S)
        return at - now

    def free(self, now: float) -> None:
        """Give out moments from now on again: those that were given are void."""
        self.free_at, self._freed_at = 0.0, now

    def is_void(self, given_at: float) -> bool:
        """Say whether a moment that was given out at *given_at* was freed since."""
        return given_at <= self._freed_at + ROUNDING_S

    def set_back(self, by_s: float) -> None:
        """The wall clock was set back by so many seconds: what is left of each wait stays."""
        self.free_at -= by_s
        self._looks_at -= by_s
        self._freed_at -= by_s


def frees(before: Subscription, after: Subscription) -> bool:
    """Say whether moments that were given out under the settings of *before* are worth nothing any more."""
    return (
        (before.paused and not after.paused)
        or (before.rate_per_s, before.burst) != (after.rate_per_s, after.burst)
        or before.concurrency != after.concurrency
        or before.breaker != after.breaker
    )
