"""Rows of the index of parked entries, and notes of a worker that are written together."""

from __future__ import annotations

import time
from typing import Any

from consumer.core.message.records import EndpointState, ParkedRow
from consumer.edges.store.rows.records import Batch

NOW = 1_767_225_600.0


def row(number: int, **more: Any) -> ParkedRow:
    """A line of the index; a higher number was parked later."""
    fields: dict[str, Any] = {
        "id": f"prk_{number:016x}",
        "tenant": "acme",
        "event_id": f"evt_{number}",
        "type": "order.created",
        "subscription_ids": ("sub_1",),
        "reason": "exhausted",
        "detail": "HTTP 503",
        "code": "503",
        "attempts": 5,
        "arrived_at": NOW,
        "parked_at": NOW + number,
        "expires_at": time.time() + 3_600,
    }
    return ParkedRow(**fields | more)


def batch(*rows: ParkedRow, states: tuple[EndpointState, ...] = (), gone: tuple[str, ...] = ()) -> Batch:
    """Notes that are written together."""
    return Batch(states={s.endpoint: s for s in states}, parked={r.id: r for r in rows}, gone=gone)
