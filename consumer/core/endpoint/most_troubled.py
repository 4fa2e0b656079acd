"""Choose the subscriptions that get metric series of their own: those in most trouble, with few changes.

Data flow: trouble of each subscription -> :func:`choose` -> the subscriptions whose series end and begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

KEPT_S: Final = (
    300.0  #: a subscription that recovered keeps its series for so long, while no other needs them
)
AHEAD: Final = 2.0  #: a subscription takes the place of another one with this times as much trouble
MOST_AT_ONCE: Final = 5  #: places that change hands at one choice: each change leaves stale series behind


class Holder(NamedTuple):
    """A subscription that has series of its own."""

    weight: float  #: of its trouble; 0: it recovered
    well_s: float = 0.0  #: for how long it has been well


class Choice(NamedTuple):
    """The changes that a choice makes."""

    leaves: Sequence[str]  #: subscriptions whose series end
    comes: Sequence[str]  #: subscriptions whose series begin


def choose(places: int, holders: Mapping[str, Holder], others: Mapping[str, float]) -> Choice:
    """Return which subscriptions lose their series, and which get some.

    Args:
        places: Subscriptions that have series of their own, at most.
        holders: Those that have them now.
        others: Weight of the trouble of all others that are in trouble, each more than 0.
    """
    leaves = [each for each, holder in holders.items() if holder.well_s >= KEPT_S]
    left = {each: holder for each, holder in holders.items() if holder.well_s < KEPT_S}
    coming = sorted(others, key=lambda each: (-others[each], each))
    free = max(places - len(left), 0)
    comes, coming = coming[:free], coming[free:]
    lightest = sorted(left, key=lambda each: (left[each].weight, -left[each].well_s, each))
    for old, new in zip(lightest[:MOST_AT_ONCE], coming, strict=False):
        if others[new] <= AHEAD * left[old].weight:
            break
        leaves.append(old)
        comes.append(new)
    return Choice(leaves, comes)
