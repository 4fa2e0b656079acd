"""Notify a tenant once it has many parked entries: the event, and which tenants reached the number.

Data flow: parked entries by tenant -> :meth:`ManyParked.reached` -> :func:`many_parked_event` -> deliveries
to the subscriptions of the tenant that name ``leveret.*`` types.

Source: S1-6 (50 parked entries of one tenant).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from consumer.core.message.parked import rfc3339
from consumer.core.model import OPERATORS, Event
from consumer.core.subscription.subscription import Subscription

MANY: Final = 50
"""Parked entries of one tenant at which the tenant is notified."""
MANY_PARKED_TYPE: Final = "leveret.parked.many"
DAY_S: Final = 86_400


class ManyParked:
    """The tenants that have many parked entries now."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def reached(self, sizes: Mapping[str, int]) -> Sequence[str]:
        """Return the tenants that have :data:`MANY` entries now and had fewer at the last look, sorted.

        Args:
            sizes: Parked entries by tenant.
        """
        many = {tenant for tenant, count in sizes.items() if count >= MANY and tenant != OPERATORS}
        fresh, self._known = many - self._known, many
        return sorted(fresh)

    def forget(self, tenant: str) -> None:
        """Return *tenant* again at the next look: it could not be notified."""
        self._known.discard(tenant)


def many_parked_event(tenant: str, parked: int, now: float) -> Event:
    """Return the event for *tenant*; its id stays the same for a day, so that receivers ignore a repetition.

    Args:
        tenant: Its tenant.
        parked: Its parked entries.
        now: Unix seconds.
    """
    parts = (MANY_PARKED_TYPE, tenant, str(int(now // DAY_S)))
    return Event(
        id="ops_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32],
        tenant=tenant,
        type=MANY_PARKED_TYPE,
        timestamp=rfc3339(now),
        arrived_at=now,
        body=orjson.dumps({"parked": parked, "from": MANY}),
    )


def asks_for_notices(subscription: Subscription) -> bool:
    """Return whether a pattern of the subscription names Leveret's own types; ``#`` alone does not."""
    return any(pattern.partition(".")[0] == "leveret" for pattern in subscription.events)
