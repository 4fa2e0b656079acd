"""Judge how much trouble one subscription is in, and name the cause.

Data flow: failed and held deliveries of the last minute -> :class:`RecentCauses` -> :class:`Signs` ->
:func:`judge` -> :class:`Trouble` -> the choice of the subscriptions that get series of their own.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from enum import StrEnum
from math import log2
from typing import Final, NamedTuple

from consumer.core.model import OutcomeKind

SLICE_S: Final = 15.0  #: trouble is judged once in this time
SLICES: Final = 4  #: which together are the last minute
CLEAR_RATIO: Final = 0.05  #: failures name the cause if they are at least this share of the lost work
SLOW_RATIO: Final = 0.1  #: an endpoint is slow if more of its recent attempts are slow

HALF: Final = 0.5  #: weight of slow and waiting deliveries: their endpoint takes webhooks
QUARTER: Final = 0.25  #: weight of parked entries alone: they are over, and an operator decides


class Cause(StrEnum):
    """A cause of trouble that is not the kind of a failed attempt; with those kinds a closed set."""

    RATE_LIMITED = "rate_limited"  #: the endpoint answered 429
    BREAKER = "breaker"  #: opened by hand, or by another worker that saw the failures
    SLOW = "slow"
    WAITING = "waiting"  #: for a slot, for the subscription's rate, or for a retry
    PAUSED = "paused"  #: by an operator
    LOCKED = "locked"
    PARKED = "parked"
    DISABLED = "disabled"  #: by Leveret itself


KINDS: Final = frozenset(kind.value for kind in OutcomeKind if kind is not OutcomeKind.OK)
FAILURES: Final = KINDS | {Cause.RATE_LIMITED.value}
CAUSES: Final = KINDS | {cause.value for cause in Cause}

_HOLDS: Final[Mapping[str, Cause]] = {
    "slow": Cause.SLOW,
    "paused": Cause.PAUSED,
    "locked": Cause.LOCKED,
}


def failure_cause(kind: OutcomeKind, status: int | None) -> str:
    """Return the cause that a failed attempt names."""
    return Cause.RATE_LIMITED.value if status == 429 else kind.value


def hold_cause(reason: str, last: str | None) -> str:
    """Return the cause of a delivery that was held.

    Args:
        reason: Of the hold, as in :class:`consumer.core.endpoint.admission.Hold`.
        last: Cause of the last failed attempt; None: none is known.
    """
    if reason == "breaker":
        return last or Cause.BREAKER.value
    if reason == "paced" and last == Cause.RATE_LIMITED.value:
        return last
    return _HOLDS.get(reason, Cause.WAITING).value


class RecentCauses:
    """Counts the failed and held deliveries of one subscription in the last minute, by cause.

    Attributes:
        last: Cause of the last failed attempt.
    """

    __slots__ = ("_delivered", "_slices", "last")

    def __init__(self) -> None:
        self._slices: deque[Counter[str]] = deque([Counter()], maxlen=SLICES)
        self._delivered: deque[int] = deque(maxlen=SLICES)  #: deliveries since the start, as each slice began
        self.last: str | None = None

    def failed(self, cause: str) -> None:
        """Count a failed attempt."""
        self.last = cause
        self._slices[-1][cause] += 1

    def held(self, reason: str) -> None:
        """Count a delivery that was held; see :func:`hold_cause`."""
        self._slices[-1][hold_cause(reason, self.last)] += 1

    def counts(self) -> Mapping[str, int]:
        """Return how many deliveries failed or were held, by cause."""
        counts: Counter[str] = Counter()
        for each in self._slices:
            counts.update(each)
        return counts

    def delivered(self, successes: int) -> int:
        """Return the deliveries of the last minute; *successes*: those since the start."""
        before = self._delivered[0] if self._delivered else successes
        return successes - before if successes >= before else successes

    def turn(self, successes: int) -> None:
        """Begin the next slice and forget the oldest; *successes* as above."""
        self._slices.append(Counter())
        self._delivered.append(successes)


class Signs(NamedTuple):
    """The signs of trouble of one subscription in the last minute."""

    counts: Mapping[str, int] = {}  #: deliveries that failed or were held, by cause
    delivered: int = 0
    last: str | None = None  #: cause of the last failed attempt, if one is known
    is_closed: bool = True  #: the breaker
    waiting: int = 0  #: deliveries that wait
    slow_ratio: float = 0.0  #: of the recent attempts
    parked: int = 0  #: entries
    is_disabled: bool = False  #: by Leveret itself


class Trouble(NamedTuple):
    """The trouble that one subscription is in."""

    share: float  #: of the last minute's work that failed or was held, in (0, 1]
    cause: str  #: a member of :data:`CAUSES`
    weight: float  #: grows with the share, and with the deliveries that are affected; more than 0


def judge(signs: Signs) -> Trouble | None:
    """Return the trouble that *signs* show; None: they show none."""
    lost, last = sum(signs.counts.values()), signs.last or Cause.WAITING.value
    if signs.is_disabled:
        return _trouble(signs, 1.0, Cause.DISABLED.value, 1.0)
    if lost:
        return _trouble(signs, lost / (lost + signs.delivered), _cause(signs.counts), 1.0)
    if not signs.is_closed:
        return _trouble(signs, 1.0, signs.last or Cause.BREAKER.value, 1.0)
    if signs.waiting:
        return _trouble(signs, signs.waiting / (signs.waiting + signs.delivered), last, HALF)
    if signs.delivered and signs.slow_ratio > SLOW_RATIO:
        return _trouble(signs, min(signs.slow_ratio, 1.0), Cause.SLOW.value, HALF)
    if signs.parked:
        return _trouble(signs, signs.parked / (signs.parked + signs.delivered), Cause.PARKED.value, QUARTER)
    return None


def _trouble(signs: Signs, share: float, cause: str, factor: float) -> Trouble:
    affected = sum(signs.counts.values()) + signs.waiting + signs.parked
    return Trouble(share, cause, factor * share * log2(2 + affected))


def _cause(counts: Mapping[str, int]) -> str:
    """Return the most frequent cause; a failed attempt explains more than a hold that follows it."""
    failures = {cause: count for cause, count in counts.items() if cause in FAILURES}
    is_clear = sum(failures.values()) >= CLEAR_RATIO * sum(counts.values())
    return max(sorted(failures if failures and is_clear else counts), key=lambda cause: counts[cause])
