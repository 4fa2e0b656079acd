"""Tell an endpoint that is gone from one that is down: nothing but failures, for days.

Data flow: flow.endpoints keeps one :class:`Failing` per endpoint from the first failure to the next success;
:func:`is_gone` is asked at each failure, and a subscription whose endpoint is gone is disabled.

Source: STANDARD_WEBHOOKS SW-41 (Svix: every attempt failed for 5 days; the clock starts once failures within
24 h lie at least 12 h apart, so that two bad moments far from each other are not taken for days of failure).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

#: First and last failure lie at least this far apart before the time counts.
APART_S: Final = 43_200.0
#: Two failures further apart than this say nothing of the time between, unless it counts already.
SPAN_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Failing:
    """An endpoint that has taken nothing for a while; times are Unix seconds."""

    first_at: float  #: the first failure
    counts: bool = False  #: True: failures within a day lay far enough apart


def failed(state: Failing | None, now: float) -> Failing:
    """Return the state after one more failure; None is an endpoint that was well before."""
    if state is None:
        return Failing(now)
    if state.counts:
        return state
    if now - state.first_at > SPAN_S:
        return Failing(now)
    return replace(state, counts=True) if now - state.first_at >= APART_S else state


def is_gone(state: Failing | None, now: float, after_s: float) -> bool:
    """Say whether nothing was taken for so long that the subscription is disabled.

    Args:
        state: Of the endpoint.
        now: Unix seconds.
        after_s: The policy's ``disable_after_s``; 0 never disables.
    """
    return state is not None and state.counts and 0 < after_s <= now - state.first_at
