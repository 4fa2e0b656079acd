"""Tell an endpoint that is gone from one that is down: nothing but failures, for days.

Data flow: flow.endpoint keeps one :class:`Failing` per endpoint from the first failure to the next success;
:func:`is_gone` is asked at each failure, and a subscription whose endpoint is gone is disabled. What has
lasted for :data:`LONG_S` is told to the other workers and kept in the store as a :class:`Health`;
:func:`merged` joins what two of them know.

Source: SW-41 (Svix: every attempt failed for 5 days; the clock starts once failures within
24 h lie at least 12 h apart, so that two bad moments far from each other are not taken for days of failure).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

_GONE: Final = "every attempt failed for"

#: First and last failure lie at least this far apart before the time counts.
APART_S: Final = 43_200.0
#: Two failures further apart than this say nothing of the time between, unless it counts already.
SPAN_S: Final = 86_400.0
#: Failures that have lasted for less are told to nobody: an endpoint that is down and up again costs nothing.
LONG_S: Final = 600.0
#: Two accounts of a first failure that are closer than this mean the same.
TOLD_SLACK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Failing:
    """An endpoint that has taken nothing for a while; times are Unix seconds."""

    first_at: float  #: the first failure
    counts: bool = False  #: True: failures within a day lay far enough apart


class Health(NamedTuple):
    """What one worker, or the store, knows of an endpoint; times are Unix seconds."""

    failing: Failing | None  #: None: nothing has failed since the last success
    taken_at: float = 0.0  #: the last success; 0 where none is known


def failed(state: Failing | None, now: float) -> Failing:
    """Return the state after one more failure; None is an endpoint that was well before."""
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
    """Join what two know; the later success ends every failure before it.

    In doubt the time begins later: it never begins before a success, nor at a failure that stands alone.
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
    """Say whether nothing was taken for so long that the subscription is disabled.

    Args:
        state: Of the endpoint.
        now: Unix seconds.
        after_s: The policy's ``disable_after_s``; 0 never disables.
    """
    return state is not None and state.counts and 0 < after_s <= now - state.first_at


def gone_note(after_s: float) -> str:
    """Return how the reason of a subscription begins that was disabled for this."""
    return f"{_GONE} {after_s / 86_400:g} days"


def says_gone(disabled_reason: str | None) -> bool:
    """Say whether a reason is of :func:`gone_note`; what the endpoint said stands behind it."""
    return disabled_reason is not None and disabled_reason.startswith(_GONE)


def much_the_same(one: Failing | None, other: Failing | None) -> bool:
    """Say whether two accounts of failing differ by no more than messages' travel."""
    if one is None or other is None:
        return one is other
    return one.counts == other.counts and abs(one.first_at - other.first_at) < TOLD_SLACK_S
