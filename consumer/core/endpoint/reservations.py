"""Give a reservation to each delivery that an endpoint holds, and a check to each that is held for long.

    held -> its own reservation, at most about a minute after the hold ends -> asks for admission again
    held for longer (a long cooldown, a reservation under a rate) -> checks on the way whether it still holds

Data flow: AdmissionControl takes a reservation for each Hold; FanOut asks for the distance of the checks. An
operator, a recovery or a changed setting frees the reservations; a delivery with a freed one asks for
admission again at its next check.
"""

from __future__ import annotations

from typing import Final

#: Reservations are given out up to about this far ahead of the end of a hold. With the way through the wait
#: queues and a slow start, every held delivery asks for admission again within a minute.
AHEAD_S: Final = 40.0
LOOK_S = 60.0  #: a delivery that is held for longer checks on the way, first after this time
LOOK_INTERVAL_S = 0.05  #: least distance of those checks, which bounds their cost however much waits
GOLDEN_RATIO = 0.618034  #: any number of its multiples divides a span evenly
ROUNDING_S = 0.01  #: delivery messages carry whole milliseconds


def spread(free_at: float, now: float, earliest: float, interval_s: float) -> tuple[float, float]:
    """Take the next free reservation from *earliest* on.

    Args:
        free_at: The first time that is not reserved yet.
        now: Unix seconds.
        earliest: Unix seconds.
        interval_s: Distance to the reservation after this one.

    Returns:
        The first time that is free then, and the reservation, *now* at the earliest.
    """
    at = max(free_at, earliest, now)
    return at + interval_s, at


def spread_within(free_at: float, earliest: float, interval_s: float, least_s: float) -> tuple[float, float]:
    """Take the next free reservation from *earliest* on; far ahead, reservations are closer together.

    Up to half of :data:`AHEAD_S` ahead the distance is *interval_s*; beyond, it shrinks towards *least_s*, so
    that all held deliveries share the time up to :data:`AHEAD_S` evenly once they have come back a few times.
    Reservations run further ahead only where more than :data:`AHEAD_S` / *least_s* deliveries are held.

    Args:
        free_at: The first time that is not reserved yet.
        earliest: Unix seconds, not before now.
        interval_s: Distance of the requests that the endpoint takes now.
        least_s: Least distance of two reservations; a shorter *interval_s* counts as this.

    Returns:
        The first time that is free then, and the reservation.
    """
    at = max(free_at, earliest)
    left = min(1.0, 2 * (1 - (at - earliest) / AHEAD_S))
    return at + max(interval_s * left, least_s), at


class Reservations:
    """The reservations of one endpoint, in Unix seconds.

    They may be freed at any time, since the pace alone bounds the requests that are sent.

    Attributes:
        free_at: From here on nothing is reserved.
    """

    __slots__ = ("_freed_at", "_looks_at", "_part", "free_at")

    def __init__(self) -> None:
        self.free_at = 0.0
        self._part = 0.0  #: of the span by which a reservation is moved back
        self._looks_at = 0.0  #: from here on no check is given out
        self._freed_at = 0.0  #: reservations that were given out before this are void

    def take(self, now: float, earliest: float, interval_s: float, least_s: float) -> float:
        """Give out the next reservation from *earliest* on; see :func:`spread_within`.

        Reservations that gather at the end of their span are moved back, each by another part of it, so that
        deliveries which came together do not come back together.
        """
        earliest = max(now, earliest)
        self.free_at, at = spread_within(self.free_at, earliest, interval_s, least_s)
        if interval_s <= least_s or at - earliest <= AHEAD_S / 2:
            return at
        self._part = (self._part + GOLDEN_RATIO) % 1
        return at - self._part * AHEAD_S / 2

    def look_s(self, now: float) -> float:
        """Give out the next check; return in how many seconds it is due, at least :data:`LOOK_S`."""
        self._looks_at, at = spread(self._looks_at, now, now + LOOK_S, LOOK_INTERVAL_S)
        return at - now

    def free(self, now: float) -> None:
        """Make all reservations void, and give out new ones from now on."""
        self.free_at, self._freed_at = 0.0, now

    def is_void(self, given_at: float) -> bool:
        """Return whether a reservation that was given out at *given_at* was freed since."""
        return given_at <= self._freed_at + ROUNDING_S

    def set_back(self, by_s: float) -> None:
        """Keep the rest of each wait: the wall clock was set back by so many seconds."""
        self.free_at -= by_s
        self._looks_at -= by_s
        self._freed_at -= by_s
