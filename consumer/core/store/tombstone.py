"""The record of a deleted subscription, which permits to cancel the deliveries that still wait for it.

Data flow: removal (store) -> Tombstone -> flow.deliver, which cancels no delivery without one.
"""

from __future__ import annotations

from typing import NamedTuple

DAY_S = 86_400.0
MARGIN_S = 30 * DAY_S
"""Extra time after the last possible delivery, for a daemon that is stopped meanwhile."""


class Tombstone(NamedTuple):
    """The time and the author of a subscription's deletion."""

    id: str  #: id of the subscription
    tenant: str
    name: str
    deleted_at: float  #: Unix seconds
    deleted_by: str
    keep_until: float  #: Unix seconds


def keep_until(deleted_at: float, max_age_s: float, parked_ttl_s: float) -> float:
    """Return the time until which a delivery of a deleted subscription may still appear, in Unix seconds.

    Args:
        deleted_at: Unix seconds.
        max_age_s: Maximum age of a delivery, from the subscription's retry policy.
        parked_ttl_s: Time that the parked queue keeps an entry, which an operator may replay.
    """
    return deleted_at + max(max_age_s, DAY_S) + parked_ttl_s + MARGIN_S
