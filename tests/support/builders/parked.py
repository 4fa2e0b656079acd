"""A delivery that failed, and the entry that it becomes in the parked queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import (
    ParkNote,
)
from consumer.core.model import Attempt, Event, OutcomeKind, ParkReason, RawMessage

AT = 1_700_000_000.0
NOTE = ParkNote(reason=ParkReason.EXHAUSTED, detail="HTTP 503", at=AT, ttl_s=604_800.0)


def parked(raw: RawMessage, headers: dict[str, object]) -> RawMessage:
    """Return the entry as the parked queue gives it out."""
    fields: dict[str, Any] = {
        "headers": headers,
        "exchange": "leveret.dlx",
        "routing_key": "parked.exhausted",
        "queue": "leveret.parked",
    }
    return replace(raw, **fields)


def delivery(**more: Any) -> DeliveryMessage:
    """A delivery that failed twice."""
    event = Event(
        id="ord-1",
        tenant="acme",
        type="order.created",
        timestamp="2023-11-14T22:13:20Z",
        arrived_at=AT - 60,
        body=b'{"n":1}',
    )
    attempts = (
        Attempt(number=1, at=AT - 50, kind=OutcomeKind.HTTP_5XX, status=503, duration_s=0.25, wait_s=4.0),
        Attempt(number=2, at=AT - 40, kind=OutcomeKind.TIMEOUT_TOTAL, status=None, duration_s=15.0),
    )
    fields: dict[str, Any] = {
        "event": event,
        "targets": ("sub_1",),
        "attempts": attempts,
        "attempts_made": 2,
    }
    return DeliveryMessage(**fields | more)
