"""The codec of our own messages: delivery messages and wrapped raw messages.

Data flow: Event + targets -> headers_of -> broker (rungs, due) -> read_delivery -> the same Event.
Our headers are trusted on our own queues only; nothing of a producer's travels outside of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any

import orjson

from consumer.core.errors import BadEvent
from consumer.core.event import amqp_values as fields
from consumer.core.model import Attempt, DataForm, Event, OutcomeKind, ParkReason, RawMessage

VERSION = 1
READABLE_VERSIONS = (1,)  #: this one and the one before it, for rolling upgrades
KEPT_ATTEMPTS = 64  #: a delivery message remembers at most this many attempts
WRAPPED_HEADERS_BYTES = 49_152  #: of a producer's headers that a wrapper keeps, as JSON
SHORT_BYTES = 255  #: longest AMQP short string, such as the property ``content_type``

_V = "leveret-v"
_RAW = "leveret-raw"


class UnknownVersion(Exception):
    """A newer worker wrote this message: give it back to the ladder."""


@dataclass(slots=True, kw_only=True)
class DeliveryMessage:
    """What is still owed for one event: which targets, after which attempts, not before when.

    Like an event, it is never assigned to, and not frozen for its cost.
    """

    event: Event
    targets: tuple[str, ...]  #: subscription ids
    attempts: tuple[Attempt, ...] = ()  #: finished ones, oldest first; only with a single target
    attempts_made: int = 0  #: counts all, even those no longer remembered
    not_before: float = 0.0  #: Unix seconds
    wait_s: float = 0.0  #: the whole wait that was wanted, for the 2 % rule
    exact: bool = False  #: the endpoint named the wait (``Retry-After``)
    reserved: bool = False  #: the endpoint's clock gave it *not_before*: then only a pause holds it
    served_s: float = 0.0  #: what the rungs so far have served of *wait_s*; see core.due
    late_s: float = 0.0  #: so much longer it may live, for one more try; see core.due
    #: its endpoint put it off, no attempt failed: *not_before* may be freed before it comes
    held: bool = False


def headers_of(message: DeliveryMessage) -> dict[str, object]:
    """Write a delivery message as AMQP headers; the body is the event's, unchanged."""
    event = message.event
    headers: dict[str, object] = {
        _V: VERSION,
        "leveret-event": event.id,
        "leveret-tenant": event.tenant,
        "leveret-type": event.type,
        "leveret-time": event.timestamp,
        "leveret-arrived": ceil_ms(event.arrived_at),
        "leveret-targets": " ".join(message.targets),
        "leveret-not-before": ceil_ms(message.not_before),
        "leveret-wait": ceil_ms(message.wait_s),
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
        headers["leveret-expires"] = ceil_ms(event.expires_at)
    if message.exact:
        headers["leveret-exact"] = True
    if message.reserved:
        headers["leveret-reserved"] = True
    if message.served_s:
        headers["leveret-served"] = ceil_ms(message.served_s)
    if message.late_s:
        headers["leveret-late"] = ceil_ms(message.late_s)
    if message.held:
        headers["leveret-held"] = True
    if event.timestamp_assumed:
        headers["leveret-time-assumed"] = True
    if message.attempts_made:
        headers["leveret-made"] = message.attempts_made
        headers["leveret-attempts"] = write_attempts(message.attempts[-KEPT_ATTEMPTS:])
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
            attempts=read_attempts(h.get("leveret-attempts", "")),
            attempts_made=int(h.get("leveret-made", 0)),
            not_before=_seconds(h["leveret-not-before"]),
            wait_s=_seconds(h["leveret-wait"]),
            exact=bool(h.get("leveret-exact", False)),
            reserved=bool(h.get("leveret-reserved", False)),
            served_s=_seconds(h.get("leveret-served", 0)),  # a worker of the version before writes none
            late_s=_seconds(h.get("leveret-late", 0)),
            held=bool(h.get("leveret-held", False)),
        )
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BadEvent(ParkReason.MALFORMED, f"not a delivery message: {error!r}") from None


def demand_readable(raw: RawMessage) -> None:
    """Return if the message's headers could be read.

    Raises:
        BadEvent: they could not; ``malformed``.
    """
    if raw.fault is not None:
        raise BadEvent(ParkReason.MALFORMED, f"its headers cannot be read: {raw.fault}")


def is_ours(raw: RawMessage) -> bool:
    """Whether a message on one of our own queues carries our format version."""
    return _V in raw.headers


def wrap_raw(raw: RawMessage) -> dict[str, object]:
    """Write what a producer's message carried as one header, so that it can be moved unread.

    What decoding makes of the message stays the same. Values that no event is read from (tables, arrays,
    decimals) are kept as an array of one shortened text. Where the headers are too many for one AMQP frame,
    which cannot be split, the longest are left out.

    Source: AMQP 0-9-1, 4.2.6 (a content header is one frame; RabbitMQ's default frame_max is 131,072).
    """
    return {_V: VERSION, _RAW: orjson.dumps(raw_fields(raw)).decode()}


def raw_fields(raw: RawMessage) -> dict[str, object]:
    """Return what :func:`wrap_raw` keeps of a producer's message; of one that was unwrapped, the same."""
    return {
        "headers": _bounded_headers(raw.headers),
        "exchange": _plain(raw.exchange),
        "routing_key": _plain(raw.routing_key),
        "content_type": _plain(raw.content_type),
        "content_encoding": _plain(raw.content_encoding),
        "message_id": _plain(raw.message_id),
        "type": _plain(raw.type),
        "timestamp_s": _plain(raw.timestamp_s),
        "expiration": _plain(raw.expiration),
        "app_id": _plain(raw.app_id),
        "correlation_id": _plain(raw.correlation_id),
        "queue": _plain(raw.queue),
        "fault": _plain(raw.fault),
    }


def is_wrapped(raw: RawMessage) -> bool:
    """Whether a message on one of our own queues is a producer's message, wrapped."""
    return _RAW in raw.headers


def is_moved(raw: RawMessage, due: str) -> bool:
    """Whether a message in a spill queue is one that a worker moved there: only we publish to *due*.

    What came by a binding is a producer's message, whatever its headers say.
    """
    return raw.exchange == due and is_wrapped(raw)


def own_headers(raw: RawMessage) -> dict[str, object]:
    """Return the headers of ours that a message on one of our own queues carries."""
    return {k: v for k, v in raw.headers.items() if k.startswith("leveret-")}


def unwrap_raw(raw: RawMessage) -> RawMessage:
    """Return the producer's message that :func:`wrap_raw` wrapped.

    Raises:
        BadEvent: the wrapper is not ours.
    """
    try:
        outer = {"queue": raw.queue} | orjson.loads(str(raw.headers[_RAW]))
        headers = dict(outer.pop("headers").items())
        return RawMessage(body=raw.body, headers=headers, redelivered=True, **outer)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEvent(ParkReason.MALFORMED, f"not a wrapped message: {error!r}") from None


def short_text(text: str) -> str:
    """Return the start of *text* that fits into an AMQP short string."""
    sound = fields.as_text(text) or ""
    return sound if len(sound) * 4 <= SHORT_BYTES else sound.encode()[:SHORT_BYTES].decode(errors="ignore")


def ceil_ms(seconds: float) -> int:
    """Return whole milliseconds, rounded up: never early."""
    return ceil(round(seconds * 1000, 3))


def _read_event(h: Mapping[str, Any], raw: RawMessage) -> Event:
    start, _, end = h.get("leveret-span", "0:").partition(":")
    expires = h.get("leveret-expires")
    return Event(
        id=_text(h["leveret-event"]),
        tenant=_text(h["leveret-tenant"]),
        type=_text(h["leveret-type"]),
        timestamp=_text(h["leveret-time"]),
        timestamp_assumed=bool(h.get("leveret-time-assumed", False)),
        arrived_at=_seconds(h["leveret-arrived"]),
        body=raw.body,
        content_type=raw.content_type or "application/json",
        form=DataForm(h.get("leveret-form", "json")),
        data_start=int(start),
        data_end=int(end) if end else None,
        extras=_read_table(h.get("leveret-extras")),
        trace=_read_table(h.get("leveret-trace")),
        expires_at=None if expires is None else _seconds(expires),
    )


def _seconds(ms: object) -> float:
    """Read what :func:`ceil_ms` wrote.

    Raises:
        TypeError: *ms* is not an integer: a float or a decimal may be a value that cannot be compared.
    """
    if not isinstance(ms, int):
        raise TypeError(f"whole milliseconds are expected, not {type(ms).__name__}")
    return ms / 1000


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text is expected, not {type(value).__name__}")
    return value


def _read_table(text: str | None) -> dict[str, str]:
    table = {} if text is None else orjson.loads(text)
    if not isinstance(table, dict):
        raise TypeError("a table is expected")
    return table


def write_attempts(attempts: tuple[Attempt, ...]) -> str:
    """Write attempts as one header; :func:`read_attempts` reads them."""

    def fields(a: Attempt) -> tuple[object, ...]:
        return (
            a.number,
            ceil_ms(a.at),
            a.kind.value,
            "" if a.status is None else a.status,
            ceil_ms(a.duration_s),
        )

    return ";".join(",".join(map(str, fields(a))) for a in attempts)


def read_attempts(text: str) -> tuple[Attempt, ...]:
    """Read what :func:`write_attempts` wrote.

    Raises:
        ValueError: it is something else.
    """
    attempts = []
    for part in filter(None, text.split(";")):
        number, at, kind, status, duration = part.split(",")
        attempts.append(
            Attempt(
                number=int(number),
                at=int(at) / 1000,
                kind=OutcomeKind(kind),
                status=int(status) if status else None,
                duration_s=int(duration) / 1000,
            )
        )
    return tuple(attempts)


def _bounded_headers(headers: Mapping[str, object]) -> dict[str, object]:
    sized = []
    for name, value in headers.items():
        key, kept = fields.as_text(str(name)[:SHORT_BYTES]) or "", _plain(value)
        sized.append((len(orjson.dumps((key, kept))), key, kept))
    sized.sort(key=lambda each: each[0])
    kept_headers, left = {}, WRAPPED_HEADERS_BYTES
    for size, key, kept in sized:
        left -= size
        if left < 0:
            break
        kept_headers[key] = kept
    return kept_headers


def _plain(value: object) -> object:
    """Return what JSON can hold and what decoding reads just like *value*."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return value
    text = None if isinstance(value, int) else fields.as_text(value)
    if text is not None:
        return text[:8192]
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return [value[0][:1024]]  # it was shortened before, or may as well have been
    return [repr(value)[:1024]]
