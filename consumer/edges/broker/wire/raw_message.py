"""Convert a message of the AMQP library into the core's terms."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from aiormq.abc import DeliveredMessage

from consumer.core.model import RawMessage
from consumer.edges.broker.wire.frames import UNREADABLE


class Returns(Enum):
    """The returns of a message that the broker counts in ``x-delivery-count``."""

    NONE = "none"  #: classic queues: the header comes from a producer
    ALL = "all"  #: quorum queues up to RabbitMQ 4.2: each redelivered message has the broker's count
    FAILED = "failed"  #: quorum queues from 4.3 on: without a failure, a producer's header stays in place


def raw_message(message: DeliveredMessage, queue: str, counted: Returns = Returns.ALL) -> RawMessage:
    """Convert a message of the library into the core's terms.

    Args:
        message: Message of the library.
        queue: Queue that it came from.
        counted: The returns that this queue counts.
    """
    delivery: Any = message.delivery  # the three kinds that carry a message have the same fields
    properties = message.header.properties
    headers: Mapping[str, Any] = properties.headers or {}
    stamp = properties.timestamp
    return RawMessage(
        body=message.body,
        headers=headers,
        exchange=delivery.exchange or "",
        routing_key=delivery.routing_key or "",
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        message_id=properties.message_id,
        type=properties.message_type,
        timestamp_s=None if stamp is None else stamp.timestamp(),
        expiration=properties.expiration,
        app_id=properties.app_id,
        correlation_id=properties.correlation_id,
        queue=queue,
        redelivered=bool(delivery.redelivered),
        delivery_count=_returns(headers, counted) if delivery.redelivered else 0,
        fault=headers.get(UNREADABLE),
    )


def _returns(headers: Mapping[str, Any], counted: Returns) -> int:
    """Return the broker's count of a redelivered message, whatever its producer wrote.

    From 4.3 on, the broker sets ``x-acquired-count`` on each redelivery, and ``x-delivery-count`` only after
    a failure. The second is never the larger one, so it bounds a producer's header.

    Source: RabbitMQ 4.3, "Quorum Queues", poison message handling.
    """
    count = headers.get("x-delivery-count", 0)
    if counted is Returns.NONE or not isinstance(count, int):
        return 0
    acquired = headers.get("x-acquired-count")
    if counted is Returns.FAILED and isinstance(acquired, int):
        return min(count, acquired)
    return count
