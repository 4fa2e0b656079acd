"""Choose the tenants that have series of their own: the busiest ones, without going to and fro.

Data flow: jobs of each tenant in a minute -> :func:`exchanges` -> whose series give way to whose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

AHEAD: Final = 2.0  #: times the jobs of the tenant whose place is taken
LEAST: Final = 60  #: jobs a minute; with fewer nobody takes a place
MOST_AT_ONCE: Final = 10  #: places that change hands a minute: each one leaves stale series behind


def exchanges(own: Mapping[str, int], others: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return who gives up its series, each with the busier tenant that gets them.

    Args:
        own: Jobs in a minute by tenant, of those with series of their own.
        others: The same of the others.

    Source: S1-9; Issue "Fairness", item 5 (the top N tenants).
    """
    leaving = sorted(own, key=lambda tenant: (own[tenant], tenant))
    coming = sorted(others, key=lambda tenant: (-others[tenant], tenant))
    pairs = []
    for old, new in zip(leaving[:MOST_AT_ONCE], coming, strict=False):
        if others[new] < max(LEAST, AHEAD * own[old]):
            break
        pairs.append((old, new))
    return pairs
