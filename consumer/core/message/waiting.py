"""Select deliveries that wait on the ladder, and show them.

Data flow: rung -> DeliveryMessage -> :func:`split` -> the wanted part -> list, kick (:func:`kicked`), cancel;
the other part stays, or is published again for its other targets.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import delivery_id, rfc3339


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wanted deliveries; a field that is None fits every delivery."""

    tenant: str | None = None
    subscription: str | None = None  #: its id
    event: str | None = None  #: its id


class Parted(NamedTuple):
    """One delivery message, divided by its targets."""

    wanted: DeliveryMessage | None
    others: DeliveryMessage | None


def split(message: DeliveryMessage, wanted: Wanted) -> Parted:
    """Divide a delivery message into the wanted part and the other part."""
    event = message.event
    if wanted.tenant not in (None, event.tenant) or wanted.event not in (None, event.id):
        return Parted(None, message)
    if wanted.subscription is None or message.targets == (wanted.subscription,):
        return Parted(message, None)
    if wanted.subscription not in message.targets:
        return Parted(None, message)
    others = tuple(target for target in message.targets if target != wanted.subscription)
    return Parted(replace(message, targets=(wanted.subscription,)), replace(message, targets=others))


def kicked(message: DeliveryMessage, now: float) -> DeliveryMessage:
    """Return the delivery message without the rest of its wait; attempts and age stay.

    A hold by hand ends too: from *now* on (Unix seconds) the delivery may be late.
    """
    until = min(message.by_hand_until, now)
    unmarked = replace(message, exact=False, reserved=False, held=False, by_hand_until=until)
    return replace(unmarked, not_before=now, wait_s=0.0, served_s=0.0)


def as_dict(message: DeliveryMessage, target: str) -> Mapping[str, object]:
    """Return one waiting delivery with stable field names, times in RFC 3339."""
    event, last = message.event, message.attempts[-1] if message.attempts else None
    code = None if last is None else last.kind.value if last.status is None else str(last.status)
    return {
        "delivery_id": delivery_id(event.id, target),
        "event_id": event.id,
        "subscription_id": target,
        "tenant": event.tenant,
        "type": event.type,
        "not_before": rfc3339(message.not_before),
        "arrived_at": rfc3339(event.arrived_at),
        "failed_attempts": message.attempts_made,
        "last_failure_code": code,
        "size_bytes": len(event.body),
    }


def as_record(message: DeliveryMessage, target: str) -> Mapping[str, object]:
    """Return a cancelled delivery with its body: a line of an archive."""
    return {**as_dict(message, target), "body_base64": base64.b64encode(message.event.body).decode()}
