"""Write and read parked entries, the messages of the queue that operators look through.

Data flow: Park verdict or bad event -> entry headers -> leveret.dlx -> leveret.parked -> read_entry -> JSON.
The body is the event's bytes, or the producer's raw bytes, unchanged.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from consumer.core.books import Origin
from consumer.core.errors import BadEvent
from consumer.core.event.amqp_values import as_text
from consumer.core.message.attempt_headers import read_attempts, write_attempts
from consumer.core.message.delivery import (
    DeliveryMessage,
    headers_of,
    is_wrapped,
    raw_fields,
    read_delivery,
    unwrap_raw,
    wrap_raw,
)
from consumer.core.model import Attempt, OutcomeKind, ParkReason, RawMessage
from consumer.core.text.milliseconds import ceil_ms

_BROKERS_HEADERS = frozenset(
    {
        "x-death",
        "x-delivery-count",
        "x-acquired-count",
        *(
            f"x-{which}-death-{what}"
            for which in ("first", "last")
            for what in ("queue", "reason", "exchange")
        ),
    }
)
"""Headers that RabbitMQ writes into a message that returns to its queue or becomes a dead letter.

Source: RabbitMQ "Dead Letter Exchanges" and "Quorum Queues" (poison messages).
"""
ENTRY = "leveret-entry"  #: header with the id of an entry
DETAIL = "leveret-detail"  #: header with the text of its reason
_PARKED_AT = "leveret-parked-at"
_FAILURE = "leveret-failure"
MAX_DETAIL = 1000  #: characters of the reason text that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedEntry:
    """A delivery or raw message that Leveret gave up, with all that an operator needs to judge and replay it.

    Exactly one of *delivery* and *raw* is set.
    """

    #: ``prk_`` and 16 hex digits; the same when one message is parked twice, and for two equal raw messages
    id: str
    reason: ParkReason
    detail: str  #: never empty
    parked_at: float  #: Unix seconds
    ttl_s: float  #: how long the parked queue keeps it
    body: bytes
    delivery: DeliveryMessage | None = None
    raw: RawMessage | None = None
    failure: Attempt | None = None  #: the endpoint's last failure, where the delivery itself had no attempt

    @property
    def last(self) -> Attempt | None:
        """The last known failure: its own since the last replay, its endpoint's, or one before the replay."""
        delivery = self.delivery
        if delivery is None or not delivery.all_attempts:
            return self.failure
        own = delivery.all_attempts[-1]
        return own if delivery.attempts or self.failure is None else self.failure


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkNote:
    """The reason and time of parking."""

    reason: ParkReason
    detail: str
    at: float  #: Unix seconds
    ttl_s: float  #: how long the parked queue keeps it
    failure: Attempt | None = None  #: the endpoint's last failure, where no attempt was made


def delivery_id(event_id: str, subscription_id: str) -> str:
    """Name a delivery: ``dlv_`` and 16 hex digits, the same however often it is published."""
    return "dlv_" + hashlib.sha256(f"{event_id}\0{subscription_id}".encode()).hexdigest()[:16]


def delivery_entry_headers(message: DeliveryMessage, note: ParkNote) -> dict[str, object]:
    """Write the headers of a parked delivery (one target)."""
    entry_id = "prk_" + delivery_id(message.event.id, " ".join(message.targets))[4:]
    return headers_of(message) | _note_headers(note, entry_id)


def raw_entry_headers(raw: RawMessage, note: ParkNote) -> dict[str, object]:
    """Write the headers of a parked raw message."""
    return wrap_raw(raw) | _note_headers(note, _raw_entry_id(raw))


def read_entry(raw: RawMessage) -> ParkedEntry:
    """Read one message of the parked queue.

    Raises:
        BadEvent: it is not a parked entry.
        UnknownVersion: a newer worker wrote it.
    """
    h: Mapping[str, Any] = raw.headers
    try:
        reason = ParkReason(h["leveret-reason"])
        note = {
            "id": str(h[ENTRY]),
            "detail": str(h[DETAIL]),
            "parked_at": h[_PARKED_AT] / 1000,
            "ttl_s": h["leveret-ttl"] / 1000,
            "failure": next(iter(read_attempts(h.get(_FAILURE, ""))), None),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadEvent(ParkReason.MALFORMED, f"not a parked entry: {error!r}") from None
    if is_wrapped(raw):
        return ParkedEntry(reason=reason, body=raw.body, raw=unwrap_raw(raw), **note)
    return ParkedEntry(reason=reason, body=raw.body, delivery=read_delivery(raw), **note)


def parked_mark(entry: ParkedEntry) -> dict[str, object]:
    """Write the time of parking as a header, for the worker that takes the replay."""
    return {_PARKED_AT: ceil_ms(entry.parked_at)}


def parked_for_s(raw: RawMessage, now: float) -> float | None:
    """Return for how many seconds an entry, or its replay, was parked; None where the time is missing."""
    at = raw.headers.get(_PARKED_AT)
    return max(now - at / 1000, 0.0) if isinstance(at, int) else None


def origin_of(raw: RawMessage) -> Origin:
    """Return where the targets of a delivery message come from: a replay makes them owed once more."""
    return Origin.OWED if _PARKED_AT in raw.headers else Origin.WAITING


def entry_as_dict(entry: ParkedEntry) -> dict[str, object]:
    """Return an entry with stable field names, times in RFC 3339 and durations in seconds.

    Every entry has every field; a field without a value is None. A raw entry was never a delivery, and a
    delivery does not keep the exchange and the routing key.

    ``arrived_at`` is the first arrival, and ``failed_attempts`` and ``attempts`` are those over all replays.
    Of many attempts only the newest are remembered; ``failed_attempts`` counts all.

    Source: S1-3 (jobId is ``delivery_id``, outboxId ``event_id``, companyId ``tenant``,
    movedToDLQAt ``parked_at``, enqueuedAt ``arrived_at``, ttl ``ttl_s``); S1-5.
    """
    shown: dict[str, object] = {
        "id": entry.id,
        "reason": entry.reason.value,
        "detail": entry.detail,
        "parked_at": rfc3339(entry.parked_at),
        "ttl_s": entry.ttl_s,
        "size_bytes": len(entry.body),
        "delivery_id": None,
        "event_id": None,
        "subscription_id": None,
        "tenant": None,
        "type": None,
        "exchange": None,
        "routing_key": None,
        "content_type": None,
        "arrived_at": None,
        "replays": 0,
        "replayed_at": None,
        "failed_attempts": 0,
        "last_failure_code": None,
        "last_failure_at": None,
        "attempts": [],
    }
    if entry.delivery is not None:
        return shown | _delivery_fields(entry.delivery, entry.last)
    return shown if entry.raw is None else shown | _raw_fields(entry.raw)


def entry_as_record(entry: ParkedEntry) -> dict[str, object]:
    """Return an entry with its body: a line of an archive or an export."""
    return entry_as_dict(entry) | {"body_base64": base64.b64encode(entry.body).decode()}


def rfc3339(at: float) -> str:
    """Write Unix seconds as RFC 3339 in UTC, with milliseconds.

    Raises:
        ValueError, OverflowError: *at* is not within the years 1 to 9999.
    """
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _delivery_fields(message: DeliveryMessage, last: Attempt | None) -> dict[str, object]:
    event, target = message.event, message.targets[0] if message.targets else ""
    return {
        "delivery_id": delivery_id(event.id, target),
        "event_id": event.id,
        "subscription_id": target,
        "tenant": event.tenant,
        "type": event.type,
        "content_type": event.content_type,
        "arrived_at": rfc3339(message.first_arrived_at),
        "replays": message.replays,
        "replayed_at": rfc3339(event.arrived_at) if message.replays else None,
        "failed_attempts": message.made_in_all,
        "last_failure_code": None if last is None else _code(last.status, last.kind),
        "last_failure_at": None if last is None else rfc3339(last.at + last.duration_s),
        "attempts": [
            {
                "replay": a.replay,
                "number": a.number,
                "at": rfc3339(a.at),
                "kind": a.kind.value,
                "status": a.status,
                "duration_s": a.duration_s,
                "wait_s": a.wait_s,
            }
            for a in message.all_attempts
        ],
    }


def _raw_fields(raw: RawMessage) -> dict[str, object]:
    return {
        "event_id": raw.message_id,
        "tenant": as_text(raw.headers.get("tenant")),
        "type": raw.type or raw.routing_key,
        "exchange": raw.exchange,
        "routing_key": raw.routing_key,
        "content_type": raw.content_type,
    }


def _code(status: int | None, kind: OutcomeKind) -> str:
    return kind.value if status is None else str(status)


def _raw_entry_id(raw: RawMessage) -> str:
    """Name a raw entry by everything of its producer: every header, every property, the body.

    So messages of two tenants always have two names, and a message that a crash parks twice has one. Headers
    and properties that the broker adds or removes on the way do not count.
    """
    headers = {name: value for name, value in raw.headers.items() if name not in _BROKERS_HEADERS}
    said = raw_fields(replace(raw, headers=headers))
    for name in ("expiration", "queue"):
        del said[name]
    mark = hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS) + b"\0" + raw.body)
    return "prk_" + mark.hexdigest()[:16]


def _note_headers(note: ParkNote, entry_id: str) -> dict[str, object]:
    failure = {} if note.failure is None else {_FAILURE: write_attempts((note.failure,))}
    return failure | {
        ENTRY: entry_id,
        "leveret-reason": note.reason.value,
        DETAIL: note.detail[:MAX_DETAIL].encode("utf-8", "replace").decode() or note.reason.value,
        _PARKED_AT: ceil_ms(note.at),
        "leveret-ttl": ceil_ms(note.ttl_s),
    }
