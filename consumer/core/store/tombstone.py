"""What is left of a subscription that was deleted: the right to cancel what still waits for it.

Data flow: removal (store) -> Tombstone -> flow.leftovers, which cancels nothing without one. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

DAY_S = 86_400.0
SPARE_S = 30 * DAY_S
"""How much longer a tombstone is kept than its deliveries can wait: no daemon may run meanwhile."""


class Tombstone(NamedTuple):
    """When and by whom a subscription was deleted."""

    id: str  #: of the subscription
    tenant: str
    name: str
    deleted_at: float  #: Unix seconds
    deleted_by: str
    keep_until: float  #: Unix seconds


def keep_until(deleted_at: float, max_age_s: float, parked_ttl_s: float) -> float:
    """Return until when a delivery of a subscription may still come up, in Unix seconds.

    Args:
        deleted_at: Unix seconds.
        max_age_s: Of the subscription's retry policy: the oldest that one of its deliveries becomes.
        parked_ttl_s: How long the parked queue keeps one that an operator may replay.
    """
    return deleted_at + max(max_age_s, DAY_S) + parked_ttl_s + SPARE_S
