"""Give every endpoint one pace: when its next request may start, and the distance between its requests.

Data flow: core.endpoint.admission keeps one pace per endpoint. ``Retry-After`` and pauses hold all requests
until a time; a configured rate and a slow start space them. Every request asks the pace, so the pace bounds
the requests that are *sent*: deliveries that come back together, after a pause, an outage or a restart, leave
at this pace.

A delivery that may not go now takes a reservation (:mod:`consumer.core.endpoint.reservations`) and comes back
at that time as a delivery message, without having spent an attempt.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from consumer.core.endpoint.rate_limit import RateLimit, per_second

#: Interval between the first requests after an outage.
SLOW_START_S: Final = 1.0
#: Below this interval the slow start is over.
SLOW_START_FLOOR_S: Final = 0.01
#: Longest pause after an answer that asks for fewer requests without a time; the first pause is a second.
THROTTLE_MAX_S: Final = 60.0


class Pace(NamedTuple):
    """The pace of one endpoint; times are Unix seconds."""

    held_until: float = 0.0  #: no request at all starts before: ``Retry-After``, a pause
    rate: RateLimit | None = None  #: this worker's share of a configured rate; None is no limit
    slow: RateLimit | None = None  #: the slow start; None: it is over

    @property
    def limits(self) -> bool:
        """Whether requests are spaced at all."""
        return self.rate is not None or self.slow is not None

    @property
    def interval_s(self) -> float:
        """Distance of requests by the configured rate; 0 without one."""
        return 0.0 if self.rate is None else self.rate.interval_s

    @property
    def slow_s(self) -> float:
        """Distance of requests by the slow start; 0 once it is over."""
        return 0.0 if self.slow is None else self.slow.interval_s

    def opens_at(self, now: float) -> float:
        """Return from when on, in Unix seconds, a request may start; *now* or earlier means at once."""
        at, rate, slow = self
        if rate is not None:
            at = max(at, rate.opens_at(now))
        if slow is not None:
            at = max(at, slow.opens_at(now))
        return at

    def sent(self, now: float) -> Pace:
        """Return the pace after a request that starts *now*."""
        held_until, rate, slow = self
        rate = None if rate is None else rate.sent(now)
        return Pace(held_until, rate, None if slow is None else slow.sent(now))

    def paused(self, until: float) -> Pace:
        """Return the pace that sends no request before *until* (Unix seconds); a longer pause stays."""
        return self if until <= self.held_until else self._replace(held_until=until)

    def with_rate(self, rate_per_s: float | None, burst: int | None, workers: int) -> Pace:
        """Return the pace with another configured rate; the arguments are those of :func:`per_second`.

        The schedule goes on where it is, so a changed setting gives out no second burst.
        """
        if rate_per_s is None:
            return self if self.rate is None else self._replace(rate=None)
        next_at = 0.0 if self.rate is None else self.rate.next_at
        return self._replace(rate=per_second(rate_per_s, burst, workers)._replace(next_at=next_at))

    def started_slowly(self, now: float, workers: int = 1, sample: float = 0.0) -> Pace:
        """Return the pace after an outage: one request a second, faster with every success; a pause stays.

        Args:
            now: Unix seconds.
            workers: Live workers, at least 1, which share the pace of the slow start.
            sample: In [0, 1): the part of its interval after which this worker begins.
        """
        slow_s = SLOW_START_S * workers
        return self._replace(slow=RateLimit(slow_s, 0.0, now + slow_s * sample))

    def sped_up(self, now: float) -> Pace:
        """Return the pace after a success: half the distance of the slow start, until it is over."""
        if self.slow is None:
            return self
        halved = self.slow.interval_s / 2
        if halved < SLOW_START_FLOOR_S:
            return self._replace(slow=None)
        return self._replace(slow=RateLimit(halved, 0.0, min(self.slow.next_at, now + halved)))

    def slowed_down(self, now: float) -> Pace:
        """Return the pace after a failure: twice the distance of the slow start, up to a second."""
        if self.slow is None:
            return self
        slow_s = self.slow.interval_s
        doubled = min(slow_s * 2, max(SLOW_START_S, slow_s))
        return self._replace(slow=RateLimit(doubled, 0.0, max(self.slow.next_at, now + doubled)))

    def set_back(self, by_s: float) -> Pace:
        """Return the pace after the wall clock was set back, or forward where *by_s* is negative.

        The rest of each wait stays the same.
        """
        held_until, rate, slow = self
        return Pace(
            max(held_until - by_s, 0.0) if held_until else 0.0,
            None if rate is None else rate.set_back(by_s),
            None if slow is None else slow.set_back(by_s),
        )


#: The pace of an endpoint without a configured rate; one value for all of them.
UNLIMITED: Final = Pace()


class Throttle(NamedTuple):
    """How often in a row an endpoint asked for fewer requests without a usable time."""

    times: int = 0
    at: float = 0.0  #: Unix seconds of the last time

    def asked(self, now: float, duration_s: float, *, timed: bool) -> tuple[Throttle, float]:
        """Return the next state and the pause in seconds, 0 for none, after one more answer of this kind.

        Answers to requests that were in flight at the last time do not count again.

        Args:
            now: Unix seconds.
            duration_s: Of the request that was answered.
            timed: The answer gave a time that is over already, which is believed once.
        """
        if now - duration_s < self.at:
            return self, 0.0
        times = self.times + 1
        return Throttle(times, now), throttle_s(times - timed) if times > timed else 0.0

    def ended(self) -> Throttle:
        """Return the state after a success or a reset."""
        return self._replace(times=0)

    def set_back(self, by_s: float) -> Throttle:
        """Return the state after the wall clock was set back, or forward where *by_s* is negative."""
        return self._replace(at=self.at - by_s)


#: An endpoint that never asked for fewer requests; one value for all of them.
NOT_THROTTLED: Final = Throttle()


def throttle_s(times: int) -> float:
    """Return the pause after answers that ask for fewer requests without a time: 1 s, doubling to 60 s.

    Args:
        times: How many such answers came in a row, 1-based.
    """
    return min(2.0 ** min(times - 1, 16), THROTTLE_MAX_S)
