"""Give every endpoint one pace: when its next request may start, and how far apart requests stand.

Data flow: flow.deliver keeps one clock per endpoint. ``Retry-After``, pause and an open breaker move its
time; a rate, saturation and slow start set its interval. What may not be sent now takes a reservation and
comes back at that time as a delivery message, without having spent an attempt.

A delivery that comes back at its reserved time is only held by a pause: measured against ``next_at``, which
later reservations have pushed ahead, it would stand behind everybody for ever.

Source: ARCHITECTURE "One virtual clock per endpoint".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

#: Interval of the first requests after an outage. Source: ARCHITECTURE "Breaker".
SLOW_START_S: Final = 1.0
#: Below this the slow start is over.
SLOW_START_FLOOR_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class EndpointClock:
    """The pace of one endpoint; times are Unix seconds."""

    next_at: float = 0.0  #: the next request without a reservation may start then
    interval_s: float = 0.0  #: distance of reservations by rate or saturation; 0 is no limit
    slow_s: float = 0.0  #: distance of reservations while it starts slowly; 0 is over
    held_until: float = 0.0  #: nothing at all is sent before: Retry-After, pause, open breaker

    @property
    def spacing_s(self) -> float:
        """Seconds between two reservations now."""
        return max(self.interval_s, self.slow_s)


def reserve(clock: EndpointClock, now: float) -> tuple[EndpointClock, float]:
    """Take the next free moment.

    Returns:
        The clock moved on by its spacing, and the moment in Unix seconds, *now* at the earliest. A moment
        equal to *now* may be used at once.
    """
    not_before = max(clock.next_at, now)
    return replace(clock, next_at=not_before + clock.spacing_s), not_before


def spread(
    clock: EndpointClock, now: float, earliest: float, interval_s: float
) -> tuple[EndpointClock, float]:
    """Take the next free moment from *earliest* on; moments stand *interval_s* apart from here on.

    Returns:
        The clock moved on, and the moment in Unix seconds, *now* at the earliest.
    """
    at = max(clock.next_at, earliest, now)
    after = EndpointClock(
        next_at=at + max(interval_s, clock.slow_s),
        interval_s=interval_s,
        slow_s=clock.slow_s,
        held_until=clock.held_until,
    )
    return after, at


def ready(clock: EndpointClock, now: float, *, reserved: bool) -> bool:
    """Say whether a request may start now.

    Args:
        clock: Of the endpoint.
        now: Unix seconds.
        reserved: True for a delivery whose reserved time has come; only a pause holds it.
    """
    return now >= (clock.held_until if reserved else clock.next_at)


def pause_until(clock: EndpointClock, until: float) -> EndpointClock:
    """Send nothing before *until* (Unix seconds); an earlier pause is never shortened."""
    return replace(clock, next_at=max(clock.next_at, until), held_until=max(clock.held_until, until))


def saturation_interval_s(latency_s: float, concurrency: int) -> float:
    """Return the pace at which an endpoint with all its slots busy takes further requests.

    Args:
        latency_s: Recent latency of its requests, seconds.
        concurrency: Its slots, at least 1.

    Source: Little's law: throughput is slots / latency.
    """
    return latency_s / concurrency


def slow_start(clock: EndpointClock, now: float) -> EndpointClock:
    """Begin anew after an outage: one request a second, faster with every success.

    Moments reserved far ahead during the outage are free again for fresh deliveries; a pause stays.
    """
    return replace(clock, next_at=max(now, clock.held_until), slow_s=SLOW_START_S)


def speed_up(clock: EndpointClock) -> EndpointClock:
    """Halve the slow start's distance after a success, until it is over; costs nothing at full speed."""
    if not clock.slow_s:
        return clock
    halved = clock.slow_s / 2
    return replace(clock, slow_s=halved if halved >= SLOW_START_FLOOR_S else 0.0)
