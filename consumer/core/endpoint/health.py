"""Distinguish an endpoint that is gone from one that is down: nothing but failures, for days.

Data flow: flow.endpoints keeps one :class:`HealthTracker` per endpoint. It holds a :class:`Failing` from the
first failure to the next success. :func:`is_gone` judges it at each failure, and a subscription whose
endpoint is gone is disabled. Failures that have lasted for :data:`LONG_S` are sent to the other workers and
written to the store as a :class:`Health`; :func:`merged` joins two of them.

Source: SW-41 (Svix: every attempt failed for 5 days; the time starts once failures within 24 h are at least
12 h apart, so that two bad moments far from each other are not taken for days of failure).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from consumer.core.model import OutcomeKind

_GONE: Final = "every attempt failed for"
_OUTCOME: Final = rf"(HTTP \d{{3}}|{'|'.join(OutcomeKind)})(; .+)?"  #: as core/retry/verdict.py describes it
_OWN_REASON: Final = re.compile(
    rf"{_GONE} [\d.e+-]+ days(: {_OUTCOME})?|webhook-delivery: disable(; {_OUTCOME})?|{_OUTCOME}", re.DOTALL
)

#: First and last failure are at least this far apart before the time counts.
APART_S: Final = 43_200.0
#: Two failures further apart than this show nothing about the time between them, unless it counts already.
SPAN_S: Final = 86_400.0
#: Shorter failures are not shared, so that an endpoint which is down and up again costs no messages.
LONG_S: Final = 600.0
#: Two accounts of a first failure that are closer than this mean the same failure.
TOLD_SLACK_S: Final = 1.0
#: Weight of the newest attempt in the recent share of successes.
RATIO_WEIGHT: Final = 0.05


@dataclass(frozen=True, slots=True)
class Failing:
    """An endpoint that has taken nothing for a while; times are Unix seconds."""

    first_at: float  #: the first failure
    counts: bool = False  #: True: failures within a day were far enough apart


class Health(NamedTuple):
    """The account that one worker, or the store, has of an endpoint; times are Unix seconds."""

    failing: Failing | None  #: None: nothing has failed since the last success
    taken_at: float = 0.0  #: the last success; 0 where none is known


def failed(state: Failing | None, now: float) -> Failing:
    """Return the state after one more failure; *state* is None where the attempt before was a success."""
    if state is None:
        return Failing(now)
    if state.counts:
        return state
    if now - state.first_at > SPAN_S:
        return Failing(now)
    return replace(state, counts=True) if now - state.first_at >= APART_S else state


def set_back(state: Failing | None, by_s: float) -> Failing | None:
    """Return the state after the wall clock was set back, or forward where *by_s* is negative."""
    return None if state is None else replace(state, first_at=state.first_at - by_s)


def merged(one: Health, other: Health) -> Health:
    """Join two accounts; the later success ends every failure before it.

    In doubt the time begins later: it never begins before a success, nor at a single failure.
    """
    taken_at = max(one.taken_at, other.taken_at)
    left = [h.failing for h in (one, other) if h.failing is not None and h.failing.first_at > taken_at]
    return Health(_earliest(left), taken_at)


def _earliest(failings: list[Failing]) -> Failing | None:
    counting = [failing for failing in failings if failing.counts]
    if counting:
        return min(counting, key=_first_at)
    if not failings:
        return None
    first, last = min(failings, key=_first_at), max(failings, key=_first_at)
    if last.first_at - first.first_at > SPAN_S:
        return last
    return failed(first, last.first_at)


def _first_at(failing: Failing) -> float:
    return failing.first_at


def is_gone(state: Failing | None, now: float, after_s: float) -> bool:
    """Return whether the endpoint took nothing for so long that its subscription is disabled.

    Args:
        state: Of the endpoint.
        now: Unix seconds.
        after_s: The policy's ``disable_after_s``; 0 never disables.
    """
    return state is not None and state.counts and 0 < after_s <= now - state.first_at


def gone_note(after_s: float) -> str:
    """Return the beginning of the reason with which such a subscription is disabled."""
    return f"{_GONE} {after_s / 86_400:g} days"


def says_gone(disabled_reason: str | None) -> bool:
    """Return whether a reason begins with a :func:`gone_note`; the last outcome follows it."""
    return disabled_reason is not None and disabled_reason.startswith(_GONE)


def is_own_reason(disabled_reason: str | None) -> bool:
    """Return whether a reason has exactly the form in which Leveret writes it, and is not an operator's."""
    return disabled_reason is not None and _OWN_REASON.fullmatch(disabled_reason) is not None


def much_the_same(one: Failing | None, other: Failing | None) -> bool:
    """Return whether two accounts differ by no more than the travel time of messages."""
    if one is None or other is None:
        return one is other
    return one.counts == other.counts and abs(one.first_at - other.first_at) < TOLD_SLACK_S


class HealthTracker:
    """The successes and failures of one endpoint, as this worker knows them.

    Attributes:
        failing: None: the last attempt was a success, here or elsewhere.
        shared: The same, as the other workers and the store have it.
        successes: Attempts that the endpoint took, since this worker met it.
        failures: All other attempts, faults of our own side included.
    """

    __slots__ = ("_ratio", "_run", "_taken_at", "failing", "failures", "shared", "successes")

    def __init__(self) -> None:
        self.failing: Failing | None = None
        self.shared: Failing | None = None
        self._taken_at = 0.0  #: Unix seconds of the last success here; 0: none yet
        self._ratio = 1.0  #: share of successes up to the last failure
        self._run = 0  #: successes before the last failure
        self.successes = 0
        self.failures = 0

    @property
    def account(self) -> Health:
        """The account for other workers and the store: shared failures, and the last success here."""
        return Health(self.shared, self._taken_at)

    @property
    def success_ratio(self) -> float:
        """Share of successes among the recent attempts, newer ones weigh more; 1 before the first attempt."""
        return 1 - (1 - self._ratio) * (1 - RATIO_WEIGHT) ** (self.successes - self._run)

    def taken(self, now: float) -> None:
        """Take in a success; *now* is in Unix seconds, here and below."""
        self.successes += 1
        self._taken_at = now
        self.failing = None

    def missed(self, now: float, *, counts: bool) -> None:
        """Take in a failure; it *counts* when the endpoint itself failed."""
        self._ratio, self._run = self.success_ratio * (1 - RATIO_WEIGHT), self.successes
        self.failures += 1
        if counts:
            self.failing = failed(self.failing, now)

    def forgive(self) -> None:
        """Forget the failures: the subscription was disabled, or enabled again."""
        self.failing = self.shared = None

    def share(self, now: float) -> bool:
        """Return whether others have to learn of the failures, or of their end; true once for each."""
        failing = self.failing
        if failing is self.shared or (failing is not None and now - failing.first_at < LONG_S):
            return False
        self.shared = failing
        return True

    def merge(self, heard: Health) -> bool:
        """Take over the failures in the account of another worker, or of the store.

        Returns:
            True where that account is wrong, since a later request of this worker succeeded: others have to
            learn of it.
        """
        joined = merged(Health(self.failing, self._taken_at), heard).failing
        if joined != self.failing and not much_the_same(joined, self.failing):
            self.failing = self.shared = joined
        return heard.failing is not None and heard.failing.first_at <= self._taken_at

    def set_back(self, by_s: float) -> None:
        """Keep every age: the wall clock was set back by so many seconds."""
        known, self.failing = self.failing is self.shared, set_back(self.failing, by_s)
        self.shared = self.failing if known else set_back(self.shared, by_s)
        self._taken_at = max(self._taken_at - by_s, 0.0) if self._taken_at else 0.0
