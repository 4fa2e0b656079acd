"""The codec of our own messages: delivery messages and wrapped raw messages.

Data flow: Event + targets -> headers_of -> broker (rungs, due) -> read_delivery -> the same Event.
Our headers are trusted on our own queues only; nothing of a producer's travels outside of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import orjson

from consumer.core.errors import BadEvent
from consumer.core.model import Attempt, DataForm, Event, Kind, ParkReason, RawMessage

VERSION = 1
READABLE_VERSIONS = (1,)  #: this one and the one before it, for rolling upgrades
KEPT_ATTEMPTS = 64  #: a delivery message remembers at most this many attempts

_V = "leveret-v"
_RAW = "leveret-raw"


class UnknownVersion(Exception):
    """A newer worker wrote this message: give it back to the ladder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryMessage:
    """What is still owed for one event: which targets, after which attempts, not before when."""

    event: Event
    targets: tuple[str, ...]  #: subscription ids
    attempts: tuple[Attempt, ...] = ()  #: finished ones, oldest first; only with a single target
    attempts_made: int = 0  #: counts all, even those no longer remembered
    not_before: float = 0.0  #: Unix seconds
    wait_s: float = 0.0  #: the whole wait that was wanted, for the 2 % rule
    exact: bool = False  #: the endpoint named the wait (``Retry-After``)
    reserved: bool = False  #: the endpoint's clock gave it *not_before*: then only a pause holds it


def headers_of(message: DeliveryMessage) -> dict[str, object]:
    """Write a delivery message as AMQP headers; the body is the event's, unchanged."""
    event = message.event
    headers: dict[str, object] = {
        _V: VERSION,
        "leveret-event": event.id,
        "leveret-tenant": event.tenant,
        "leveret-type": event.type,
        "leveret-time": event.timestamp,
        "leveret-arrived": to_ms(event.arrived_at),
        "leveret-targets": " ".join(message.targets),
        "leveret-not-before": to_ms(message.not_before),
        "leveret-wait": to_ms(message.wait_s),
    }
    if event.form is not DataForm.JSON:
        headers["leveret-form"] = event.form.value
    if event.data_start or event.data_end is not None:
        headers["leveret-span"] = f"{event.data_start}:{'' if event.data_end is None else event.data_end}"
    if event.extras:
        headers["leveret-extras"] = orjson.dumps(dict(event.extras)).decode()
    if event.trace:
        headers["leveret-trace"] = orjson.dumps(dict(event.trace)).decode()
    if event.expires_at is not None:
        headers["leveret-expires"] = to_ms(event.expires_at)
    if message.exact:
        headers["leveret-exact"] = True
    if message.reserved:
        headers["leveret-reserved"] = True
    if event.timestamp_assumed:
        headers["leveret-time-assumed"] = True
    if message.attempts_made:
        headers["leveret-made"] = message.attempts_made
        headers["leveret-attempts"] = _write_attempts(message.attempts[-KEPT_ATTEMPTS:])
    return headers


def read_delivery(raw: RawMessage) -> DeliveryMessage:
    """Read a delivery message from one of our own queues.

    Raises:
        UnknownVersion: it was written by a newer worker.
        BadEvent: it is no delivery message at all (somebody published to our queue).
    """
    h: Mapping[str, Any] = raw.headers
    if _V not in h:
        raise BadEvent(ParkReason.MALFORMED, f"a message without {_V} on {raw.queue}")
    if h[_V] not in READABLE_VERSIONS:
        raise UnknownVersion(str(h[_V]))
    try:
        return DeliveryMessage(
            event=_read_event(h, raw),
            targets=tuple(h["leveret-targets"].split()),
            attempts=_read_attempts(h.get("leveret-attempts", "")),
            attempts_made=int(h.get("leveret-made", 0)),
            not_before=h["leveret-not-before"] / 1000,
            wait_s=h["leveret-wait"] / 1000,
            exact=bool(h.get("leveret-exact", False)),
            reserved=bool(h.get("leveret-reserved", False)),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEvent(ParkReason.MALFORMED, f"not a delivery message: {error!r}") from None


def is_ours(raw: RawMessage) -> bool:
    """Whether a message on one of our own queues carries our format version."""
    return _V in raw.headers


def wrap_raw(raw: RawMessage) -> dict[str, object]:
    """Write what a producer's message carried as one header, so that it can be moved unread.

    Header values that are no plain text, number or truth value are written as text, shortened.
    """
    outer = {
        "headers": {str(k)[:255]: _plain(v) for k, v in list(raw.headers.items())[:200]},
        "exchange": raw.exchange,
        "routing_key": raw.routing_key,
        "content_type": raw.content_type,
        "content_encoding": raw.content_encoding,
        "message_id": raw.message_id,
        "type": raw.type,
        "timestamp_s": raw.timestamp_s,
        "expiration": raw.expiration,
        "app_id": raw.app_id,
        "correlation_id": raw.correlation_id,
    }
    return {_V: VERSION, _RAW: orjson.dumps(outer, default=str, option=orjson.OPT_NON_STR_KEYS).decode()}


def is_wrapped(raw: RawMessage) -> bool:
    """Whether a message on one of our own queues is a producer's message, wrapped."""
    return _RAW in raw.headers


def unwrap_raw(raw: RawMessage) -> RawMessage:
    """Return the producer's message that :func:`wrap_raw` wrapped.

    Raises:
        BadEvent: the wrapper is not ours.
    """
    try:
        fields = orjson.loads(str(raw.headers[_RAW]))
        return RawMessage(body=raw.body, queue=raw.queue, redelivered=True, **fields)
    except (ValueError, TypeError) as error:
        raise BadEvent(ParkReason.MALFORMED, f"not a wrapped message: {error!r}") from None


def to_ms(seconds: float) -> int:
    """Return whole milliseconds, rounded up: never early."""
    return ceil(round(seconds * 1000, 3))


def _read_event(h: Mapping[str, Any], raw: RawMessage) -> Event:
    start, _, end = h.get("leveret-span", "0:").partition(":")
    expires = h.get("leveret-expires")
    return Event(
        id=h["leveret-event"],
        tenant=h["leveret-tenant"],
        type=h["leveret-type"],
        timestamp=h["leveret-time"],
        timestamp_assumed=bool(h.get("leveret-time-assumed", False)),
        arrived_at=h["leveret-arrived"] / 1000,
        body=raw.body,
        content_type=raw.content_type or "application/json",
        form=DataForm(h.get("leveret-form", "json")),
        data_start=int(start),
        data_end=int(end) if end else None,
        extras=orjson.loads(h["leveret-extras"]) if "leveret-extras" in h else {},
        trace=orjson.loads(h["leveret-trace"]) if "leveret-trace" in h else {},
        expires_at=None if expires is None else expires / 1000,
    )


def _write_attempts(attempts: tuple[Attempt, ...]) -> str:
    def fields(a: Attempt) -> tuple[object, ...]:
        return (
            a.number,
            to_ms(a.at),
            a.kind.value,
            "" if a.status is None else a.status,
            to_ms(a.duration_s),
        )

    return ";".join(",".join(map(str, fields(a))) for a in attempts)


def _read_attempts(text: str) -> tuple[Attempt, ...]:
    attempts = []
    for part in filter(None, text.split(";")):
        number, at, kind, status, duration = part.split(",")
        attempts.append(
            Attempt(
                number=int(number),
                at=int(at) / 1000,
                kind=Kind(kind),
                status=int(status) if status else None,
                duration_s=int(duration) / 1000,
            )
        )
    return tuple(attempts)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str):
        return value[:8192]
    return repr(value)[:1024]
