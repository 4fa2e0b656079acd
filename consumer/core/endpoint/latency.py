"""How fast one endpoint answers: what it did lately, and what it does when it is well.

Data flow: Endpoint.learn -> :meth:`Latency.learn` after each attempt -> the distance of reservations.
"""

from __future__ import annotations

from collections import deque

RECENT = 20  #: attempts that the p90 looks at
LATENCY_WEIGHT = 0.2  #: of the newest attempt in the moving averages
FIRST_LATENCY_S = 0.1  #: assumed before the first answer


class Latency:
    """Moving averages of the latency, in seconds.

    Attributes:
        latency_s: Of whatever ended lately, time-outs included: how soon a slot may be free.
        healthy_s: Of what was taken lately; no time-out slows down what waits for the end of an outage.
    """

    __slots__ = ("_quick_s", "_recent", "_slow", "healthy_s", "latency_s")

    def __init__(self, quick_s: float) -> None:
        """Begin; an attempt of *quick_s* or more is slow."""
        self._quick_s = quick_s
        self.latency_s = self.healthy_s = FIRST_LATENCY_S
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._slow = 0

    @property
    def is_slow(self) -> bool:
        """Whether the p90 of the recent attempts is slow."""
        return self._slow * 10 > len(self._recent)

    def learn(self, duration_s: float, *, taken: bool) -> bool:
        """Take in one attempt, *taken* by the endpoint or not; say whether it was slow until now."""
        self.latency_s += LATENCY_WEIGHT * (duration_s - self.latency_s)
        if taken:
            self.healthy_s += LATENCY_WEIGHT * (duration_s - self.healthy_s)
        slow = duration_s >= self._quick_s
        self._slow += slow
        if len(self._recent) < RECENT or not self._recent[0]:
            self._recent.append(slow)
            return False
        self._recent.append(slow)
        was_slow = (self._slow - slow) * 10 > RECENT
        self._slow -= 1
        return was_slow and not self.is_slow

    def recover(self) -> None:
        """An outage is over: what it taught of the latency is forgotten."""
        self.latency_s = self.healthy_s
