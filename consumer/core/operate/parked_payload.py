"""Show the payload and the headers of a parked entry exactly, for JSON and for pages."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import orjson

from consumer.core.message.parked import ParkedEntry


def payload_as_dict(body: bytes) -> dict[str, str | None]:
    """Return the exact payload: ``data`` if it is UTF-8 text, else ``data_base64``."""
    try:
        return {"data": body.decode(), "data_base64": None}
    except UnicodeDecodeError:
        return {"data": None, "data_base64": base64.b64encode(body).decode()}


def headers_as_text(entry: ParkedEntry) -> Sequence[tuple[str, str]]:
    """Return name and value of the producer's headers, sorted by name.

    A delivery keeps only the parts of them that a webhook needs: the further members of the payload, and the
    trace of the producer. A message that never became an event keeps all.
    """
    if entry.raw is not None:
        return sorted((name, _text(value)) for name, value in entry.raw.headers.items())
    if entry.delivery is None:
        return ()
    event = entry.delivery.event
    return sorted({**event.extras, **event.trace}.items())


def _text(value: object) -> str:
    """Return a header's value as text; one that is not text becomes JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:
        return str(value)
