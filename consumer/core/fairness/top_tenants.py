"""Choose the tenants that get metric series of their own: the busiest ones, with few changes.

Data flow: jobs of each tenant in a minute -> :func:`exchanges` -> the tenants whose series are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

AHEAD: Final = 2.0  #: a tenant takes the place of another with this times as many jobs
LEAST: Final = 60  #: jobs a minute that a tenant needs to take a place
MOST_AT_ONCE: Final = 10  #: exchanges a minute: each one leaves stale series behind


def exchanges(own: Mapping[str, int], others: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the tenants that lose their series, each with the busier tenant that gets them.

    Args:
        own: Jobs in a minute by tenant, of the tenants with series of their own.
        others: Jobs in a minute by tenant, of all other tenants.

    Source: S1-9.
    """
    leaving = sorted(own, key=lambda tenant: (own[tenant], tenant))
    coming = sorted(others, key=lambda tenant: (-others[tenant], tenant))
    pairs = []
    for old, new in zip(leaving[:MOST_AT_ONCE], coming, strict=False):
        if others[new] < max(LEAST, AHEAD * own[old]):
            break
        pairs.append((old, new))
    return pairs
