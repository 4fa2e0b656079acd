"""Rows of the history and of the index of parked entries, as a worker writes them."""

from __future__ import annotations

import time
from typing import Any

from consumer.core.history.records import HistoryRow
from consumer.core.message.parked import delivery_id
from consumer.core.message.records import ParkedRow
from consumer.core.subscription.subscription import subscription_id

SHOP = subscription_id("acme", "shop")


def step(event_id: str, at: float, name: str = "attempt", **more: Any) -> HistoryRow:
    """A step of acme's delivery of an event to the shop: unless *more* differs, an attempt that failed."""
    fields: dict[str, Any] = {"tenant": "acme", "type": "order.created", "subscription_id": SHOP}
    if name == "attempt":
        fields |= {"number": 1, "kind": "http_5xx", "status": 503, "latency_ms": 20.0, "reason": "retry"}
        fields |= {"wait_ms": 1_000.0, "answer": b"busy", "answer_type": "text/plain"}
    fields |= more
    fields.setdefault("delivery_id", delivery_id(event_id, fields["subscription_id"]))
    return HistoryRow(at=at, step=name, event_id=event_id, **fields)


def delivered(event_id: str, at: float, **more: Any) -> HistoryRow:
    """A first attempt that delivered."""
    success: dict[str, Any] = {"kind": "ok", "status": 200, "reason": "delivered", "wait_ms": None}
    return step(event_id, at, **success | {"delivery_id": ""} | more)


def parked_line(number: int, at: float, **more: Any) -> ParkedRow:
    """A line of the index of parked entries, of acme's shop; it expires far in the future."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "event_id": f"e{number:05}",
        "type": "order.created",
        "subscription_ids": (SHOP,),
        "reason": "exhausted",
        "detail": "HTTP 503",
        "code": "503",
        "attempts": 5,
        "arrived_at": at - 100,
        "parked_at": at,
        "expires_at": time.time() + 604_800,
    }
    return ParkedRow(id=f"prk_{number:016x}", **fields | more)
