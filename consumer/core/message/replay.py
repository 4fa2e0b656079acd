"""What an operator's replay publishes for one parked entry. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkedEntry

ROUTING_HEADERS = frozenset({"CC", "BCC"})
"""Headers by which RabbitMQ sends copies to further routing keys.

Source: RabbitMQ, "Sender-selected Distribution"; the names are case-sensitive.
"""


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


def replayed_headers(headers: Mapping[str, object]) -> dict[str, object]:
    """Return what a producer itself said in *headers*, without what would send copies elsewhere.

    The broker's ``x-`` and our ``leveret-`` headers tell of the way that is over.
    """
    return {
        key: value
        for key, value in headers.items()
        if key not in ROUTING_HEADERS and not key.lower().startswith(("x-", "leveret-"))
    }
