"""Messages for the tests of decoding, and a message after its hop over the broker."""

from __future__ import annotations

import json
from typing import Any

from consumer.core.errors import BadEvent
from consumer.core.event.decode import DecodeRules, NeedsInbox, decode_event
from consumer.core.model import Event, ParkReason, RawMessage
from consumer.core.webhook.body import build_body

NOW = 1_700_000_000.123
RULES = DecodeRules()
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def message(body: bytes = b'{"n":1}', **more: Any) -> RawMessage:
    """A plain event as the documentation shows how to publish it; *more* replaces fields."""
    fields: dict[str, Any] = {
        "body": body,
        "headers": {"tenant": "acme"},
        "exchange": "leveret.events",
        "routing_key": "order.created",
        "content_type": "application/json",
        "message_id": "ord-1",
        "timestamp_s": 1_600_000_000.0,
        "queue": "leveret.lane.00",
    }
    return RawMessage(**fields | more)


def decoded(raw: RawMessage, rules: DecodeRules = RULES) -> Event:
    """Decode a message that needs no hop."""
    event = decode_event(raw, rules, NOW)
    assert isinstance(event, Event), event
    return event


def hopped(raw: RawMessage, rules: DecodeRules = RULES) -> NeedsInbox:
    """Decode a message that needs the hop."""
    hop = decode_event(raw, rules, NOW)
    assert isinstance(hop, NeedsInbox), hop
    return hop


def attempt(raw: RawMessage, rules: DecodeRules = RULES) -> Event | NeedsInbox | BadEvent:
    """Decode; return the one error that decoding may raise as a value."""
    try:
        return decode_event(raw, rules, NOW)
    except BadEvent as bad:
        return bad


def parked(raw: RawMessage, rules: DecodeRules = RULES) -> str:
    """Assert that the message is parked, and return the reason."""
    bad = attempt(raw, rules)
    assert isinstance(bad, BadEvent), bad
    assert bad.reason in set(ParkReason)
    assert bad.detail
    return bad.reason


def republished(hop: NeedsInbox, made_id: str = "0193-made") -> RawMessage:
    """Return the message that a lane gives out after the hop was published to the events exchange."""
    return RawMessage(
        body=hop.body,
        headers=dict(hop.headers),
        exchange="leveret.events",
        routing_key=hop.routing_key,
        content_type=hop.content_type,
        message_id=hop.message_id or made_id,
        type=hop.type,
        timestamp_s=hop.timestamp_s,
        app_id=hop.app_id,
        correlation_id=hop.correlation_id,
        queue="leveret.lane.03",
    )


def payload(event: Event) -> Any:
    """The webhook's body, parsed."""
    return json.loads(build_body(event))
