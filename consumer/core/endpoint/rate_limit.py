"""Limit a rate by a virtual schedule: an interval between two requests, and a burst that may run ahead.

Data flow: the pace of an endpoint, the rate of a worker and both retry budgets each keep one
:class:`RateLimit`, and replace it with the one that ``sent`` or ``reserved`` returns.

Source: ITU-T I.371, generic cell rate algorithm (virtual scheduling).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

#: A rate without a configured burst may run ahead by as much as it sends in this time, and by one request at
#: least, since deliveries come back from a queue some milliseconds late.
BURST_S: Final = 0.1
#: Unix seconds as floats are exact to less than this.
ROUNDING_S: Final = 0.001
#: Counts of intervals are exact to less than this.
ROUNDING: Final = 1e-6


class RateLimit(NamedTuple):
    """One virtual schedule; times are Unix seconds."""

    interval_s: float  #: between two requests in the long run; more than 0
    slack_s: float = 0.0  #: how far requests may run ahead of the schedule
    next_at: float = 0.0  #: the next request by the schedule, without slack

    def opens_at(self, now: float) -> float:
        """Return from when on a request may start; *now* or earlier means at once.

        A time more than one interval ahead comes from a clock that was set back since, and holds nothing.
        """
        at = self.next_at - self.slack_s
        return at if at <= now + self.interval_s + ROUNDING_S else now

    def room(self, now: float) -> int:
        """Return how many requests may start together now."""
        opens_at = self.opens_at(now)
        if opens_at > now:
            return 0
        ahead_s = min(now - opens_at, self.slack_s)
        return 1 + int(ahead_s / self.interval_s + ROUNDING)

    def sent(self, now: float) -> RateLimit:
        """Return the limit after a request that starts *now*, whether there was room for it or not."""
        interval_s, slack_s, next_at = self
        ahead_at = now + slack_s  # a clock that was set back holds back no more than the slack
        next_at = now if next_at < now else next_at
        return RateLimit(interval_s, slack_s, (ahead_at if next_at > ahead_at else next_at) + interval_s)

    def wait_s(self, now: float) -> float:
        """Return in how many seconds the next reservation begins."""
        return max(0.0, self.next_at - self.slack_s - now)

    def reserved(self, now: float) -> RateLimit:
        """Return the limit after one more reservation; unlike requests, these run ahead without a bound."""
        return self._replace(next_at=max(self.next_at, now) + self.interval_s)

    def reshaped(self, shape: RateLimit) -> RateLimit:
        """Return the limit with the interval and the slack of *shape*; earlier reservations stay."""
        return shape._replace(next_at=self.next_at)

    def set_back(self, by_s: float) -> RateLimit:
        """Return the limit after the wall clock was set back, or forward where *by_s* is negative.

        The rest of each wait stays the same.
        """
        return self._replace(next_at=self.next_at - by_s)


def per_second(rate_per_s: float, burst: int | None = None, workers: int = 1) -> RateLimit:
    """Return one worker's share of a configured rate, with its whole burst left.

    Args:
        rate_per_s: Requests a second by all workers together, more than 0.
        burst: Requests that may start together, all workers together; None: :data:`BURST_S` of the rate.
        workers: Live workers, at least 1. While the workers count each other differently, the sum of their
            shares is off by at most the number of workers that are not counted by all.
    """
    share = rate_per_s / workers
    ahead = math.ceil(share * BURST_S) if burst is None else burst // workers - 1
    return RateLimit(1 / share, max(1 if burst is None else 0, ahead) / share)


def per_period(count: int, period_s: float, workers: int = 1) -> RateLimit:
    """Return one worker's share of a quota: *count* at once, then one each *period_s* / *count*.

    Args:
        count: Of all workers together, at least 1. A worker whose share is below one gets one at a time.
        period_s: In which all workers together get *count*.
        workers: Live workers, at least 1.

    Source: S0-10.
    """
    interval_s = period_s * workers / count
    return RateLimit(interval_s, max(0.0, period_s - interval_s))
