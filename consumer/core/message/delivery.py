"""Write and read Leveret's own messages: delivery messages and wrapped raw messages.

Data flow: Event, targets -> headers_of -> broker (rungs, due) -> read_delivery -> the same Event.
The headers ``leveret-*`` are trusted only on queues to which only Leveret publishes. Everything of a producer
travels inside of them, except for the body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson

from consumer.core.errors import BadEvent
from consumer.core.event import amqp_values as fields
from consumer.core.message.attempt_headers import (
    Earlier,
    earlier_headers,
    read_attempts,
    read_earlier,
    write_attempts,
    write_waits,
)
from consumer.core.model import Attempt, DataForm, Event, ParkReason, RawMessage
from consumer.core.text.milliseconds import ceil_ms, seconds_of

VERSION = 1
READABLE_VERSIONS = (1,)  #: the present version and the one before it, for rolling upgrades
KEPT_ATTEMPTS = 64  #: attempts that a delivery message remembers at most
WRAPPED_HEADERS_BYTES = 49_152  #: bytes of a producer's headers that a wrapper keeps, as JSON
SHORT_BYTES = 255  #: longest AMQP short string, such as the property ``content_type``

_V = "leveret-v"
RAW = "leveret-raw"  #: header with the fields of a wrapped message
ATTEMPTS = "leveret-attempts"
WAITS = "leveret-waits"
EXTRAS = "leveret-extras"
TRACE = "leveret-trace"


class UnknownVersion(Exception):
    """A newer worker wrote this message; it waits on the ladder for a newer worker."""


@dataclass(slots=True, kw_only=True)
class DeliveryMessage:
    """The deliveries that are still owed for one event: targets, attempts so far, and the time.

    No code assigns to its fields. It is not frozen because a frozen dataclass takes longer to make.
    """

    event: Event
    targets: tuple[str, ...]  #: subscription ids
    attempts: tuple[Attempt, ...] = ()  #: finished ones since the last replay, oldest first; one target
    attempts_made: int = 0  #: all attempts since the last replay, also those not remembered
    not_before: float = 0.0  #: Unix seconds
    wait_s: float = 0.0  #: the whole wait that was chosen, for the 2 % rule
    exact: bool = False  #: the endpoint named the wait (``Retry-After``)
    reserved: bool = False  #: *not_before* is a reservation: then only a pause holds it
    served_s: float = 0.0  #: the part of *wait_s* that the rungs have served so far; see core.message.due
    late_s: float = 0.0  #: extension of the deadline, for one more try; see core.message.due
    #: its endpoint deferred it, no attempt failed: the reservation may be freed before *not_before*
    held: bool = False
    by_hand_until: float = 0.0  #: Unix seconds until which an operator held it: it is not late before then
    earlier: Earlier | None = None  #: the attempts before the last replay; None if it was never replayed

    @property
    def owed_since(self) -> float:
        """Unix seconds from which on the delivery may be late."""
        return max(self.event.arrived_at, self.by_hand_until)

    @property
    def replays(self) -> int:
        """How often the delivery was replayed."""
        return 0 if self.earlier is None else self.earlier.replays

    @property
    def first_arrived_at(self) -> float:
        """Unix seconds when a worker first took the event, before any replay."""
        return self.event.arrived_at if self.earlier is None else self.earlier.first_arrived_at

    @property
    def made_in_all(self) -> int:
        """How many attempts were made over all replays."""
        return self.attempts_made + (0 if self.earlier is None else self.earlier.attempts_made)

    @property
    def all_attempts(self) -> tuple[Attempt, ...]:
        """The remembered attempts over all replays, oldest first; each names its replay."""
        if self.earlier is None:
            return self.attempts
        return (*self.earlier.attempts, *(a._replace(replay=self.earlier.replays) for a in self.attempts))


def headers_of(message: DeliveryMessage) -> dict[str, object]:
    """Write a delivery message as AMQP headers; the body is the body of the event, unchanged."""
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
        headers[EXTRAS] = orjson.dumps(dict(event.extras)).decode()
    if event.trace:
        headers[TRACE] = orjson.dumps(dict(event.trace)).decode()
    if event.expires_at is not None:
        headers["leveret-expires"] = ceil_ms(event.expires_at)
    headers |= _wait_headers(message)
    if event.timestamp_assumed:
        headers["leveret-time-assumed"] = True
    if message.attempts_made:
        headers |= _attempt_headers(message)
    if message.earlier is not None:
        headers |= earlier_headers(message.earlier)
    return headers


def read_delivery(raw: RawMessage) -> DeliveryMessage:
    """Read a delivery message from a queue of Leveret.

    Raises:
        UnknownVersion: a newer worker wrote it.
        BadEvent: it is not a delivery message: another application published to the queue.
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
            attempts=read_attempts(h.get(ATTEMPTS, ""), h.get(WAITS, "")),
            attempts_made=int(h.get("leveret-made", 0)),
            not_before=seconds_of(h["leveret-not-before"]),
            wait_s=seconds_of(h["leveret-wait"]),
            exact=bool(h.get("leveret-exact", False)),
            reserved=bool(h.get("leveret-reserved", False)),
            served_s=seconds_of(h.get("leveret-served", 0)),  # a worker of the previous version writes none
            late_s=seconds_of(h.get("leveret-late", 0)),
            held=bool(h.get("leveret-held", False)),
            by_hand_until=seconds_of(h.get("leveret-by-hand", 0)),
            earlier=read_earlier(h),
        )
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BadEvent(ParkReason.MALFORMED, f"not a delivery message: {error!r}") from None


def demand_readable(raw: RawMessage) -> None:
    """Check that the message's headers could be read.

    Raises:
        BadEvent: they could not be read; ``malformed``.
    """
    if raw.fault is not None:
        raise BadEvent(ParkReason.MALFORMED, f"its headers cannot be read: {raw.fault}")


def is_ours(raw: RawMessage) -> bool:
    """Return whether a message on a queue of Leveret carries a format version."""
    return _V in raw.headers


def wrap_raw(raw: RawMessage) -> dict[str, object]:
    """Write the headers and properties of a producer's message as one header, to move it unread.

    Decoding the unwrapped message gives the same event. Values from which no event is read (tables, arrays,
    decimals) are kept as an array of one shortened text. All headers must fit into one AMQP frame, so the
    longest are left out where they do not.

    Source: AMQP 0-9-1, 4.2.6 (a content header is one frame; RabbitMQ's default frame_max is 131,072).
    """
    return {_V: VERSION, RAW: orjson.dumps(raw_fields(raw)).decode()}


def raw_fields(raw: RawMessage) -> dict[str, object]:
    """Return the fields that :func:`wrap_raw` keeps; an unwrapped message gives the same fields again."""
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
    """Return whether a message on a queue of Leveret is a wrapped message of a producer."""
    return RAW in raw.headers


def is_moved(raw: RawMessage, due: str) -> bool:
    """Return whether a worker moved a message to its spill queue; only workers publish to *due*.

    A message that came by a binding is a producer's message, whatever its headers contain.
    """
    return raw.exchange == due and is_wrapped(raw)


def own_headers(raw: RawMessage) -> dict[str, object]:
    """Return the headers ``leveret-*`` of a message on a queue of Leveret."""
    return {k: v for k, v in raw.headers.items() if k.startswith("leveret-")}


def unwrap_raw(raw: RawMessage) -> RawMessage:
    """Return the producer's message that :func:`wrap_raw` wrapped.

    Raises:
        BadEvent: the wrapper is not valid.
    """
    try:
        outer = {"queue": raw.queue} | orjson.loads(str(raw.headers[RAW]))
        headers = dict(outer.pop("headers").items())
        return RawMessage(body=raw.body, headers=headers, redelivered=True, **outer)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEvent(ParkReason.MALFORMED, f"not a wrapped message: {error!r}") from None


def short_text(text: str) -> str:
    """Return the start of *text* that fits into an AMQP short string."""
    sound = fields.as_text(text) or ""
    return sound if len(sound) * 4 <= SHORT_BYTES else sound.encode()[:SHORT_BYTES].decode(errors="ignore")


def _wait_headers(message: DeliveryMessage) -> dict[str, object]:
    """Write how the wait was chosen and how much of it is over; usual values are left out."""
    marks = {"exact": message.exact, "reserved": message.reserved, "held": message.held}
    spans = {"served": message.served_s, "late": message.late_s, "by-hand": message.by_hand_until}
    return {f"leveret-{name}": True for name, is_set in marks.items() if is_set} | {
        f"leveret-{name}": ceil_ms(span_s) for name, span_s in spans.items() if span_s
    }


def _attempt_headers(message: DeliveryMessage) -> dict[str, object]:
    kept = message.attempts[-KEPT_ATTEMPTS:]
    waits = write_waits(kept)
    return {
        "leveret-made": message.attempts_made,
        ATTEMPTS: write_attempts(kept),
        **({WAITS: waits} if waits else {}),
    }


def _read_event(h: Mapping[str, Any], raw: RawMessage) -> Event:
    start, _, end = h.get("leveret-span", "0:").partition(":")
    expires = h.get("leveret-expires")
    return Event(
        id=_text(h["leveret-event"]),
        tenant=_text(h["leveret-tenant"]),
        type=_text(h["leveret-type"]),
        timestamp=_text(h["leveret-time"]),
        timestamp_assumed=bool(h.get("leveret-time-assumed", False)),
        arrived_at=seconds_of(h["leveret-arrived"]),
        body=raw.body,
        content_type=raw.content_type or "application/json",
        form=DataForm(h.get("leveret-form", "json")),
        data_start=int(start),
        data_end=int(end) if end else None,
        extras=_read_table(h.get(EXTRAS)),
        trace=_read_table(h.get(TRACE)),
        expires_at=None if expires is None else seconds_of(expires),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text is expected, not {type(value).__name__}")
    return value


def _read_table(text: str | None) -> dict[str, str]:
    table = {} if text is None else orjson.loads(text)
    if not isinstance(table, dict):
        raise TypeError("a table is expected")
    return table


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
    """Return a value for JSON that decoding reads just like *value*."""
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
        return [value[0][:1024]]  # it was shortened before, or is treated alike
    return [repr(value)[:1024]]
