"""Make the headers of our own messages smaller, where they do not fit into one AMQP frame.

Data flow: Outbox -> the publisher refuses a frame -> :func:`shrunk` -> published with less history. If only
something necessary is left, the delivery is parked.

A delivery message gives up only remembered attempts, which are still counted. A parked entry is for people:
it may also give up headers of the producer, and its text names this. Bodies are never changed.

Source: AMQP 0-9-1, 4.2.6 (the content header is one frame); fault 97.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import orjson

from consumer.core.message.attempt_headers import EARLIER
from consumer.core.message.delivery import ATTEMPTS, EXTRAS, RAW, TRACE, WAITS
from consumer.core.message.parked import DETAIL, ENTRY

SHORT_DETAIL: Final = 200  #: characters of the reason that stay in an entry without room
LEFT_OUT: Final = "; some of its headers were left out, as they did not fit into a frame"

Headers: TypeAlias = dict[str, object]
Step: TypeAlias = Callable[[Headers, int], None]
"""Makes headers smaller by so many bytes, or by as many as it can."""

_ATTRIBUTES = (EXTRAS, TRACE)


def shrunk(headers: Mapping[str, object], excess_bytes: int) -> Headers | None:
    """Return *headers* with at least *excess_bytes* less; None where that is not possible.

    Args:
        headers: Of a delivery message, of a parked entry or of a moved message.
        excess_bytes: By how many bytes the frame is too long.
    """
    smaller, wanted = dict(headers), size_of(headers) - excess_bytes
    for step in _ENTRY_STEPS if ENTRY in headers else _DELIVERY_STEPS:
        if (left := size_of(smaller) - wanted) > 0:
            step(smaller, left)
    return smaller if size_of(smaller) <= wanted else None


def size_of(headers: Mapping[str, object]) -> int:
    """Return the bytes of the names and texts of *headers*; other values count as 9 bytes."""
    return sum(
        len(name.encode()) + 2 + (len(value.encode()) + 4 if isinstance(value, str) else 9)
        for name, value in headers.items()
    )


def _forget_earlier(headers: Headers, excess_bytes: int) -> None:
    """Forget the oldest attempts before the last replay."""
    text = str(headers.get(EARLIER, ""))
    if text:
        headers[EARLIER] = ";".join(_newest(text.split(";"), excess_bytes, 0))


def _forget_attempts(headers: Headers, excess_bytes: int) -> None:
    """Forget the oldest attempts but for the last one, each with its wait."""
    attempts = str(headers.get(ATTEMPTS, "")).split(";")
    kept = _newest(attempts, excess_bytes, 1)
    if len(kept) == len(attempts):
        return
    headers[ATTEMPTS] = ";".join(kept)
    waits = str(headers.get(WAITS, "")).split(",")
    if WAITS in headers:
        headers[WAITS] = ",".join(waits[-len(kept) :])


def _newest(parts: list[str], excess_bytes: int, least: int) -> list[str]:
    """Return *parts* without the oldest ones that take up *excess_bytes*; at least *least* stay."""
    gone = 0
    while excess_bytes > 0 and len(parts) - gone > least:
        excess_bytes -= len(parts[gone].encode()) + 1
        gone += 1
    return parts[gone:]


def _forget_producers_headers(headers: Headers, excess_bytes: int) -> None:
    """Leave the longest headers of a wrapped message out."""
    if RAW not in headers:
        return
    outer = orjson.loads(str(headers[RAW]))
    longest = sorted(outer["headers"].items(), key=lambda each: len(orjson.dumps(each)))
    left_bytes = excess_bytes + _mark(headers)
    while left_bytes > 0 and longest:
        left_bytes -= len(orjson.dumps(longest.pop())) - 1
    outer["headers"] = dict(longest)
    headers[RAW] = orjson.dumps(outer).decode()


def _forget_attributes(headers: Headers, excess_bytes: int) -> None:
    """Leave the attributes of a CloudEvent and the trace out."""
    if any(name in headers for name in _ATTRIBUTES) and excess_bytes > 0:
        _mark(headers)
        for name in _ATTRIBUTES:
            headers.pop(name, None)


def _shorten_detail(headers: Headers, _excess_bytes: int) -> None:
    text = str(headers.get(DETAIL, ""))
    headers[DETAIL] = text[:SHORT_DETAIL] or "-"


def _mark(headers: Headers) -> int:
    """Name in the entry's text that it is not whole; return how many bytes that takes."""
    text = str(headers.get(DETAIL, ""))
    if text.endswith(LEFT_OUT):
        return 0
    headers[DETAIL] = text + LEFT_OUT
    return len(LEFT_OUT)


_DELIVERY_STEPS: tuple[Step, ...] = (_forget_earlier, _forget_attempts)
_ENTRY_STEPS: tuple[Step, ...] = (
    _forget_earlier,
    _forget_attempts,
    _shorten_detail,
    _forget_producers_headers,
    _forget_attributes,
)
