"""Read values that producers set in properties and headers, and check and bound each of them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TypeGuard

from consumer.core.errors import BadEvent
from consumer.core.model import TRACEPARENT, ParkReason
from consumer.core.text import rfc3339

MAX_TEXT_BYTES = 2048  #: of one forwarded value; it keeps a delivery message's headers within one frame
MAX_TYPE_BYTES = 255  #: of an event type; AMQP's limit for a routing key and for the property ``type``

_INTEGER_BITS = 64  # the widest integer of AMQP
_PLAIN_TYPE = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_NOT_IN_A_TYPE = re.compile(r"[^A-Za-z0-9_.]")
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")


def as_text(value: object) -> str | None:
    """Return a scalar header value as text that UTF-8 can encode; None for tables, arrays and floats.

    A byte array (Java's ``byte[]``, Go's ``[]byte``) is read as UTF-8, or as Latin-1 if that fails.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _INTEGER_BITS else None
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.decode("latin-1")
    if isinstance(value, datetime):
        return rfc3339.from_datetime(value)
    return None


def is_absent(value: object) -> bool:
    """Return whether a field is absent, or contains an empty text or byte array."""
    return value is None or (isinstance(value, str | bytes | bytearray) and not value)


def check_length(name: str, text: str) -> str:
    """Return *text* if it is short enough to be forwarded.

    Raises:
        BadEvent: *text* is longer than :data:`MAX_TEXT_BYTES`; ``too_large``.
    """
    if len(text) > MAX_TEXT_BYTES // 4 and len(text.encode()) > MAX_TEXT_BYTES:
        raise BadEvent(ParkReason.TOO_LARGE, f"{name} is longer than {MAX_TEXT_BYTES} bytes")
    return text


def normalise_type(raw: str) -> str:
    """Return *raw* as segments of ``[A-Za-z0-9_]`` joined by single full stops.

    Every other character becomes ``_``, and empty segments are left out: ``a-b..c/`` becomes ``a_b.c_``.

    Raises:
        BadEvent: no segment is left, or *raw* is longer than :data:`MAX_TYPE_BYTES`; ``malformed``.

    Source: Standard Webhooks 1.0.0, "Payload structure" (``type``).
    """
    if len(raw) > MAX_TYPE_BYTES or (not raw.isascii() and len(raw.encode()) > MAX_TYPE_BYTES):
        raise BadEvent(ParkReason.MALFORMED, f"the event type is longer than {MAX_TYPE_BYTES} bytes")
    if _PLAIN_TYPE.fullmatch(raw):
        return raw
    segments = _NOT_IN_A_TYPE.sub("_", raw).split(".")
    text = ".".join(segment for segment in segments if segment)
    if not text:
        raise BadEvent(ParkReason.MALFORMED, "the event type has no words, only full stops")
    return text


def trace_context(traceparent: object, tracestate: object) -> dict[str, str]:
    """Return the valid headers among ``traceparent`` and ``tracestate``, safe as HTTP header values.

    Source: W3C Trace Context, sections 3.2 and 3.3 (a state without a valid parent is dropped).
    """
    parent = as_text(traceparent) if traceparent is not None else None
    if parent is None or TRACEPARENT.fullmatch(parent) is None:
        return {}
    state = as_text(tracestate)
    if state is None or _TRACESTATE.fullmatch(state) is None:
        return {"traceparent": parent}
    return {"traceparent": parent, "tracestate": state}


def occurred_ms(timestamp_s: object, timestamp_in_ms: object) -> int | None:
    """Return when an event occurred, in Unix milliseconds, or None if the message names no time.

    Args:
        timestamp_s: The AMQP property, in seconds. A value too large for seconds is read as milliseconds.
        timestamp_in_ms: The header of that name, in Unix milliseconds. It counts if the property is absent or
            names the same second; it then adds the milliseconds to that second.
    """
    seconds = _number_ms(timestamp_s)
    exact = timestamp_in_ms if _is_integer(timestamp_in_ms) else None
    if (
        exact is not None
        and 0 <= exact <= rfc3339.MAX_MS
        and (seconds is None or exact // 1000 == seconds // 1000)
    ):
        return exact
    return seconds


def _number_ms(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= rfc3339.MAX_MS:  # NaN is refused here too
        return None
    return int(value) if value > rfc3339.MAX_MS // 1000 else round(value * 1000)


def expires_ms(expiration: object, expires_at_ms: object, now_ms: int) -> int | None:
    """Return the Unix milliseconds after which an event must not be delivered; None is never.

    Args:
        expiration: The AMQP property: milliseconds from *now_ms*, as text.
        expires_at_ms: The header of that name: Unix milliseconds. The earlier of the two limits counts.
        now_ms: Arrival time of the event, Unix milliseconds.
    """
    ends: list[int] = []
    if (
        isinstance(expiration, str)
        and expiration.isascii()
        and expiration.isdecimal()
        and len(expiration) < 16
    ):
        ends.append(now_ms + int(expiration))
    if _is_integer(expires_at_ms) and 0 <= expires_at_ms <= rfc3339.MAX_MS:
        ends.append(expires_at_ms)
    return min(ends, default=None)


def tenant_text(value: object) -> str | None:
    """Return a tenant header's value as text if it is a string, bytes or an integer; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, str | bytes | bytearray | int):
        return None
    return as_text(value)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
