"""Measure how fast one endpoint answers: lately, while it is well, and while it does not answer at all.

Data flow: :meth:`Latency.learn` after each attempt -> how soon a slot is free, the distance of reservations.
"""

from __future__ import annotations

import math
from array import array

RECENT = 20  #: attempts that the p90 and the p95 look at
LATENCY_WEIGHT = 0.2  #: of the newest attempt in the moving averages
FIRST_LATENCY_S = 0.1  #: assumed before the first answer


class Latency:
    """Moving averages of the latency, in seconds.

    Attributes:
        latency_s: Of all attempts that ended lately, time-outs included: how soon a slot may be free.
        healthy_s: Of the successes only, so that time-outs do not slow down the deliveries that wait for the
            end of an outage.
    """

    __slots__ = ("_next", "_quick_s", "_recent", "_silent_since", "_slow", "healthy_s", "latency_s")

    def __init__(self, quick_s: float) -> None:
        """Begin; an attempt of *quick_s* or more is slow."""
        self._quick_s = quick_s
        self.latency_s = self.healthy_s = FIRST_LATENCY_S
        self._recent = array("d")  #: durations of the recent attempts in seconds; a ring once it is full
        self._next = 0  #: place of the oldest one in the full ring
        self._slow = 0
        self._silent_since = math.inf  #: Unix seconds; requests are in flight, and none has ended since

    @property
    def is_slow(self) -> bool:
        """Whether the p90 of the recent attempts is slow."""
        return self._slow * 10 > len(self._recent)

    @property
    def slow_ratio(self) -> float:
        """Share of slow ones among the recent attempts; 0 before the first."""
        return self._slow / len(self._recent) if self._recent else 0.0

    @property
    def p95_s(self) -> float:
        """The 95th percentile of the recent attempts in seconds; 0 before the first."""
        recent = sorted(self._recent)
        return recent[math.ceil(0.95 * len(recent)) - 1] if recent else 0.0

    def is_slow_at(self, now: float, *, idle: bool) -> bool:
        """Return whether recent attempts were slow, or requests in flight are; *idle*: there are none."""
        if self._slow * 10 > len(self._recent):
            return True
        return (0.0 if idle else now - self._silent_since) >= self._quick_s

    def began(self, now: float) -> None:
        """Take in that an idle endpoint is sent a request; *now* is in Unix seconds."""
        self._silent_since = now

    def learn(self, duration_s: float, now: float, *, taken: bool) -> bool:
        """Take in one attempt, *taken* by the endpoint or not.

        Returns:
            True when the recent attempts were slow until now and are no longer.
        """
        self._silent_since = now
        self.latency_s += LATENCY_WEIGHT * (duration_s - self.latency_s)
        if taken:
            self.healthy_s += LATENCY_WEIGHT * (duration_s - self.healthy_s)
        slow, recent = duration_s >= self._quick_s, self._recent
        if len(recent) < RECENT:
            recent.append(duration_s)
            self._slow += slow
            return False
        place = self._next
        oldest, recent[place] = recent[place], duration_s
        self._next = (place + 1) % RECENT
        if oldest < self._quick_s:
            self._slow += slow
            return False
        was_slow = self.is_slow
        self._slow += slow - 1
        return was_slow and not self.is_slow

    def slot_interval_s(self, now: float, slots: int, *, idle: bool) -> float:
        """Return the distance at which slots become free, as far as it can be seen now.

        Requests in flight of which none has ended take at least as long as they have taken until now.

        Args:
            now: Unix seconds.
            slots: Of the endpoint, at least 1.
            idle: No request is in flight.

        Source: Little's law: throughput is slots / latency.
        """
        latency_s = self.latency_s if idle else max(self.latency_s, now - self._silent_since)
        return latency_s / slots

    def well_interval_s(self, slots: int) -> float:
        """Return the distance at which *slots*, at least 1, become free while the endpoint is well."""
        return self.healthy_s / slots

    def recover(self) -> None:
        """Forget the latency that an outage showed: the outage is over."""
        self.latency_s = self.healthy_s

    def set_back(self, by_s: float) -> None:
        """Keep the length of a silence: the wall clock was set back by so many seconds."""
        self._silent_since -= by_s
