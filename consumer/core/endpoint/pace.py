"""Give every endpoint one pace: when its next request may start, and how far apart requests stand.

Data flow: flow.endpoints keeps one clock per endpoint. ``Retry-After`` and pauses move its time, a configured
rate and a slow start space its requests. The clock is asked about every request, so it bounds what is *sent*:
whatever comes back at once, after a pause, an outage or a restart, leaves at this pace.

What may not be sent now is given a moment of its own by :func:`spread`, as far apart as the endpoint takes
requests, and comes back then as a delivery message, without having spent an attempt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

#: Interval of the first requests after an outage.
SLOW_START_S: Final = 1.0
#: Below this the slow start is over.
SLOW_START_FLOOR_S: Final = 0.01
#: A rate without a burst of its own may run ahead by what it sends in this time, and by one request at least:
#: what comes back from a queue is some milliseconds late.
BURST_S: Final = 0.1
#: Unix seconds as floats are exact to less than this.
ROUNDING_S: Final = 0.001
#: So are counts of intervals.
ROUNDING: Final = 1e-6
#: What is held is given moments up to about this far ahead of the end of its hold. With the way over the
#: ladder and a slow start all of it looks again within a minute.
AHEAD_S: Final = 40.0
#: Longest pause after an answer that asks for less without saying how long; the first is a second.
THROTTLE_MAX_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of one endpoint; times are Unix seconds."""

    held_until: float = 0.0  #: nothing at all is sent before: Retry-After, pause
    interval_s: float = 0.0  #: distance of requests by a configured rate; 0 is no limit
    slack_s: float = 0.0  #: how far requests may run ahead of the rate
    next_at: float = 0.0  #: the next request by the rate alone, without slack
    slow_s: float = 0.0  #: distance of requests while it starts slowly; 0 is over
    slow_at: float = 0.0  #: the next request by the slow start alone

    @property
    def limits(self) -> bool:
        """Whether requests are spaced at all."""
        return self.interval_s > 0 or self.slow_s > 0


def with_rate(clock: Pace, rate_per_s: float | None, burst: int | None, workers: int) -> Pace:
    """Space requests by a configured rate.

    Args:
        clock: Of the endpoint.
        rate_per_s: Requests a second by all workers together, more than 0; None is no limit.
        burst: Requests that may start together, all workers together; None: :data:`BURST_S` of the rate.
        workers: Workers that live now, at least 1; each takes its share of rate and burst. While they count
            differently the sum of their shares is off by at most the number that do not know of each other.
    """
    if rate_per_s is None:
        return replace(clock, interval_s=0.0, slack_s=0.0, next_at=0.0)
    own = rate_per_s / workers
    ahead = math.ceil(own * BURST_S) if burst is None else burst // workers - 1
    return replace(clock, interval_s=1 / own, slack_s=max(1 if burst is None else 0, ahead) / own)


def opens_at(clock: Pace, now: float) -> float:
    """Return the first moment, in Unix seconds, at which a request may start; *now* or earlier: at once.

    What lies further ahead than one interval is of a clock that was set back since, and holds nothing.
    """
    at = clock.held_until
    if clock.interval_s:
        at = max(at, _unless_set_back(clock.next_at - clock.slack_s, now, clock.interval_s))
    if clock.slow_s:
        at = max(at, _unless_set_back(clock.slow_at, now, clock.slow_s))
    return at


def _unless_set_back(at: float, now: float, interval_s: float) -> float:
    return at if at <= now + interval_s + ROUNDING_S else now


def room(clock: Pace, now: float) -> int:
    """Return how many requests may start together now, by a rate alone; *clock* has one."""
    opens_at = _unless_set_back(clock.next_at - clock.slack_s, now, clock.interval_s)
    if opens_at > now:
        return 0
    ahead_s = min(now - opens_at, clock.slack_s)
    return 1 + int(ahead_s / clock.interval_s + ROUNDING)


def sent(clock: Pace, now: float) -> Pace:
    """Move the clock on by the request that starts *now*."""
    next_at = clock.next_at
    if clock.interval_s:  # a clock that was set back must not hold more than its slack
        next_at = min(max(next_at, now), now + clock.slack_s) + clock.interval_s
    return replace(clock, next_at=next_at, slow_at=now + clock.slow_s)


def spread(free_at: float, now: float, earliest: float, interval_s: float) -> tuple[float, float]:
    """Take the next free moment from *earliest* on.

    Args:
        free_at: The first moment that nobody has taken; of the endpoint.
        now: Unix seconds.
        earliest: Unix seconds.
        interval_s: Distance to the moment after this one.

    Returns:
        The first moment that is free then, and the moment taken, *now* at the earliest.
    """
    at = max(free_at, earliest, now)
    return at + interval_s, at


def spread_within(free_at: float, earliest: float, interval_s: float, least_s: float) -> tuple[float, float]:
    """Take the next free moment from *earliest* on; moments far ahead stand closer together.

    Up to half of :data:`AHEAD_S` ahead the distance is *interval_s*; beyond, it shrinks towards *least_s*, so
    that all who wait share the time up to :data:`AHEAD_S` evenly once they have looked a few times. Only more
    than :data:`AHEAD_S` / *least_s* of them run further ahead.

    Args:
        free_at: The first moment that nobody has taken; of the endpoint.
        earliest: Unix seconds, not before now.
        interval_s: Distance of requests that the endpoint takes now.
        least_s: Distance below which none is given out; an *interval_s* below it counts as this.

    Returns:
        The first moment that is free then, and the moment taken.
    """
    at = max(free_at, earliest)
    left = min(1.0, 2 * (1 - (at - earliest) / AHEAD_S))
    return at + max(interval_s * left, least_s), at


def set_back(clock: Pace, by_s: float) -> Pace:
    """Return the clock after the wall clock was set back, or forward where *by_s* is negative.

    What is left of each wait stays so.
    """
    return replace(
        clock,
        held_until=max(clock.held_until - by_s, 0.0) if clock.held_until else 0.0,
        next_at=clock.next_at - by_s,
        slow_at=clock.slow_at - by_s,
    )


def pause_until(clock: Pace, until: float) -> Pace:
    """Send nothing before *until* (Unix seconds); an earlier pause is never shortened."""
    return replace(clock, held_until=max(clock.held_until, until))


def throttle_s(times: int) -> float:
    """Return the pause after an answer that asks for less without saying how long: 1 s, doubling to 60 s.

    Args:
        times: How often in a row it was asked, 1-based; answers to what was under way count once.
    """
    return min(2.0 ** min(times - 1, 16), THROTTLE_MAX_S)


class Budget(NamedTuple):
    """So many per period; what is over is postponed, never dropped. Source: S0-10."""

    interval_s: float
    slack_s: float
    next_at: float = 0.0

    def set_back(self, by_s: float) -> Budget:
        """Return the budget after the wall clock was set back; see :func:`set_back`."""
        return self._replace(next_at=self.next_at - by_s)


def budget(count: int, period_s: float) -> Budget:
    """Return a whole budget: *count* at once, then one each *period_s* / *count*."""
    return Budget(period_s / count, period_s - period_s / count)


def draw(budget: Budget, now: float) -> tuple[Budget, float]:
    """Take one from a budget; return what is left, and by how many seconds it has to be postponed."""
    next_at = max(budget.next_at, now)
    return budget._replace(next_at=next_at + budget.interval_s), max(0.0, next_at - budget.slack_s - now)


def saturation_interval_s(latency_s: float, concurrency: int) -> float:
    """Return the pace at which an endpoint with all its slots busy takes further requests.

    Args:
        latency_s: Recent latency of its requests, seconds.
        concurrency: Its slots, at least 1.

    Source: Little's law: throughput is slots / latency.
    """
    return latency_s / concurrency


def slow_start(clock: Pace, now: float) -> Pace:
    """Begin anew after an outage: one request a second, faster with every success; a pause stays."""
    return replace(clock, slow_s=SLOW_START_S, slow_at=now)


def speed_up(clock: Pace, now: float) -> Pace:
    """Halve the slow start's distance after a success, until it is over; costs nothing at full speed."""
    if not clock.slow_s:
        return clock
    halved = clock.slow_s / 2
    if halved < SLOW_START_FLOOR_S:
        return replace(clock, slow_s=0.0, slow_at=0.0)
    return replace(clock, slow_s=halved, slow_at=min(clock.slow_at, now + halved))


def slow_down(clock: Pace, now: float) -> Pace:
    """Double the slow start's distance after a failure, up to a second; costs nothing at full speed."""
    if not clock.slow_s:
        return clock
    doubled = min(clock.slow_s * 2, max(SLOW_START_S, clock.slow_s))
    return replace(clock, slow_s=doubled, slow_at=max(clock.slow_at, now + doubled))
