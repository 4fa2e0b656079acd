"""Make the message that an operator's replay publishes for one parked entry.

Data flow: ParkedEntry -> a new DeliveryMessage, or the producer's headers of a raw entry -> the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from consumer.core.message.attempt_headers import KEPT_EARLIER, Earlier
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkedEntry

ROUTING_HEADERS = frozenset({"CC", "BCC"})
"""Headers by which RabbitMQ sends copies to further routing keys.

Source: RabbitMQ, "Sender-selected Distribution"; the names are case-sensitive.
"""


def replayed_delivery(entry: ParkedEntry, now: float) -> DeliveryMessage | None:
    """Return the delivery message that begins anew; None for a raw entry.

    The event, its ``webhook-id`` and its target stay; the policy counts attempts and age from now (S1-5).
    The attempts so far, the first arrival and the number of replays go along. The producer's own expiration
    is removed: an operator decided that the delivery is still wanted.

    Args:
        entry: An entry of the parked queue.
        now: Unix seconds.
    """
    if entry.delivery is None:
        return None
    event = replace(entry.delivery.event, arrived_at=now, expires_at=None)
    return DeliveryMessage(event=event, targets=entry.delivery.targets, earlier=_earlier(entry.delivery))


def _earlier(message: DeliveryMessage) -> Earlier:
    """Return all that is known of the delivery so far, one replay later."""
    return Earlier(
        replays=message.replays + 1,
        first_arrived_at=message.first_arrived_at,
        attempts=message.all_attempts[-KEPT_EARLIER:],
        attempts_made=message.made_in_all,
    )


def replayed_headers(headers: Mapping[str, object]) -> dict[str, object]:
    """Return the headers that the producer set, without those that send copies to other queues.

    The broker's ``x-`` headers and Leveret's ``leveret-`` headers belong to the first delivery.
    """
    return {
        key: value
        for key, value in headers.items()
        if key not in ROUTING_HEADERS and not key.lower().startswith(("x-", "leveret-"))
    }
