"""Show the trace of an event, and single deliveries, with stable field names.

Data flow: :class:`EventTrace` -> dict -> JSON of ``leveret trace`` and of the API.
"""

from __future__ import annotations

from consumer.core.history.records import Step
from consumer.core.history.status import DeliveryStatus
from consumer.core.history.trace import DeliveryTrace, EventTrace
from consumer.core.history.wording import as_dict, describe, timestamp
from consumer.core.message.parked import delivery_id


def event_as_dict(found: EventTrace) -> dict[str, object]:
    """Return a trace with stable field names."""
    return {
        "event_id": found.key.event_id,
        "tenant": found.key.tenant or None,
        "type": found.key.type,
        "steps": [as_dict(row) for row in found.rows],
        "deliveries": [
            delivery_as_dict(found, each) | {"steps": [as_dict(row) for row in each.rows]}
            for each in found.deliveries
        ],
        "matched_without_step": found.missing,
        "without_delivery": [
            {
                "subscription_id": miss.subscription.id,
                "subscription": miss.subscription.full_name,
                "match_now": miss.match.value,
                "events": list(miss.subscription.events),
                "disabled_reason": miss.subscription.disabled_reason or None,
            }
            for miss in found.misses
        ],
    }


def delivery_as_dict(event: EventTrace, found: DeliveryTrace) -> dict[str, object]:
    """Return one delivery with stable field names, without its steps."""
    state, parked = found.state, found.parked
    target = found.subscription_id
    return {
        "delivery_id": delivery_id(event.key.event_id, target) if target else None,
        "event_id": event.key.event_id,
        "tenant": event.key.tenant or None,
        "type": event.key.type,
        "subscription_id": target or None,
        "subscription": found.name or None,
        "status": state.status.value,
        "since": timestamp(state.since),
        "until": None if state.until is None else timestamp(state.until),
        "attempts": found.attempts,
        "parked_entry": None if parked is None else parked.entry_id,
        "parked_reason": _parked_reason(found),
        "parked_detail": None if parked is None else parked.detail,
        "parked_until": None if parked is None else timestamp(parked.expires_at),
        "last": describe(found.rows[-1]).text if found.rows else None,
    }


def _parked_reason(found: DeliveryTrace) -> str | None:
    if found.parked is not None:
        return found.parked.reason
    reasons = [row.reason for row in found.rows if row.step == Step.PARKED]
    return reasons[-1] if reasons and found.state.status is DeliveryStatus.PARKED else None
