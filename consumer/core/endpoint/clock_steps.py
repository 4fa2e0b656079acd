"""Notice that the wall clock was set, by a monotonic clock that cannot be set.

Data flow: flow.endpoints asks :meth:`ClockSteps.set_back_s` before it reads a time that it keeps, and moves
all its times along. So the rest of a pause, a cooldown or a reservation stays the same, and so does the age
of a failure.

A machine that slept looks as if its clock had been set forward: each wait has the same rest after the sleep.

Source: fault 82.
"""

from __future__ import annotations

from collections.abc import Callable

from consumer.core.endpoint.breaker import CLOCK_SLACK_S


class ClockSteps:
    """Compares the wall clock with a monotonic one."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Compare with *monotonic*, in seconds."""
        self._monotonic = monotonic
        self._now: float | None = None  #: Unix seconds after the last step
        self._at = 0.0  #: monotonic seconds at the same time

    def set_back_s(self, now: float) -> float:
        """Return by how many seconds the clock was set back since the last step; negative: forward, 0: not.

        Less than :data:`CLOCK_SLACK_S` is not a step yet; smaller differences add up.

        Args:
            now: Unix seconds.
        """
        at, before = self._monotonic(), self._now
        by_s = 0.0 if before is None else before + (at - self._at) - now
        if before is not None and abs(by_s) <= CLOCK_SLACK_S:
            return 0.0
        self._now, self._at = now, at
        return by_s
