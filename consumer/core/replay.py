"""What an operator's replay publishes for one parked entry. Pure: time is an argument."""

from __future__ import annotations

from dataclasses import replace

from consumer.core.delivery import DeliveryMessage
from consumer.core.parked import ParkedEntry


def replayed_delivery(entry: ParkedEntry, now: float) -> DeliveryMessage | None:
    """Return the delivery message that begins anew, or None for a raw entry.

    The event, its ``webhook-id`` and its target stay; attempts and age count from now (S1-5). The
    producer's own expiration is over as well: somebody decided that it is still wanted.

    Args:
        entry: Of the parked queue.
        now: Unix seconds.
    """
    if entry.delivery is None:
        return None
    event = replace(entry.delivery.event, arrived_at=now, expires_at=None)
    return DeliveryMessage(event=event, targets=entry.delivery.targets)
