"""Read CloudEvents 1.x from AMQP messages, structured or binary.

Data flow: content type, headers, body -> read -> CloudEvent, or None for a plain event -> core.decode.

Source: CloudEvents 1.0.2 with its JSON format and AMQP binding. The prefix ``ce-`` follows the draft of
knative eventing-rabbitmq, because AMQP 0-9-1 has no official binding.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import orjson

from consumer.core.errors import BadEvent
from consumer.core.event import jsontext
from consumer.core.event.amqp_values import as_text, is_absent
from consumer.core.event.content import JSON_TYPE, Data, media_type, read_data
from consumer.core.model import DataForm, ParkReason
from consumer.core.text import rfc3339

PREFIX = "cloudEvents_"  #: the preferred prefix; Leveret writes this one

_PREFIXES = ("cloudEvents_", "cloudEvents:")
_MANDATORY = ("id", "source", "specversion", "type")
_KNOWN = frozenset(_MANDATORY).union(
    {"subject", "dataschema", "time", "datacontenttype", "tenant", "tenantid", "traceparent", "tracestate"}
)
_VERSION = re.compile(r"1\.[0-9]{1,3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """The attributes and the data of one CloudEvent, as text."""

    id: str
    source: str
    type: str
    time: str | None  #: RFC 3339 in UTC; None if the event names no time
    attributes: Mapping[str, str]  #: the known optional attributes and the wanted extensions
    data: Data
    binary: bool  #: True if the attributes came in headers


def read(
    content_type: str | None, headers: Mapping[str, object], body: bytes, extensions: Collection[str]
) -> CloudEvent | None:
    """Return the CloudEvent in a message, or None if the message is a plain event.

    Structured: the content type begins with ``application/cloudevents``. Binary: the headers contain all of
    ``id``, ``source``, ``specversion`` and ``type`` under one prefix.

    Args:
        content_type: The AMQP property.
        headers: The headers as received.
        body: The body without content encoding.
        extensions: Names of the wanted extension attributes.

    Raises:
        BadEvent: ``unsupported_format`` or ``malformed``.
    """
    kind = "" if content_type == JSON_TYPE else media_type(content_type)
    if kind.startswith("application/cloudevents"):
        if kind != "application/cloudevents+json":
            detail = f"{kind[:80]} is not supported; send application/cloudevents+json, one event a message"
            raise BadEvent(ParkReason.UNSUPPORTED_FORMAT, detail)
        return _structured(body, _KNOWN.union(extensions))
    found = _header_attributes(headers) if headers else None
    if found is None or not all(found.get(name) for name in _MANDATORY):
        return None
    return _binary(found, content_type, body, _KNOWN.union(extensions))


def as_headers(event: CloudEvent) -> dict[str, str]:
    """Return the headers of a binary CloudEvent with the same attributes."""
    given = {"id": event.id, "source": event.source, "type": event.type, **event.attributes}
    if event.time is not None:
        given["time"] = event.time
    return {PREFIX + name: text for name, text in given.items()}


def is_attribute(header: str) -> bool:
    """Return whether a header of that name has one of the three prefixes."""
    return _split(header)[0] != ""


def _header_attributes(headers: Mapping[str, object]) -> dict[str, object] | None:
    """Return the attributes by name, without their prefix; None if no header has a prefix."""
    found: dict[str, object] = {}
    used = ""
    for header, value in headers.items():
        prefix, name = _split(header)
        if not prefix:
            continue
        if used not in {"", prefix}:
            raise BadEvent(ParkReason.MALFORMED, f"headers mix the CloudEvents prefixes {used} and {prefix}")
        if name in found:
            raise BadEvent(ParkReason.MALFORMED, "two headers name the same CloudEvents attribute")
        used = prefix
        found[name] = value if name == "time" else as_text(value)
    return found if used else None


def _split(header: object) -> tuple[str, str]:
    """Return the prefix and the attribute name of one header; the prefix is empty for other headers."""
    if not isinstance(header, str):
        return "", ""
    if header[:3].lower() == "ce-":
        return "ce-", header[3:].lower()
    prefix = header[:12]
    return (prefix, header[12:]) if prefix in _PREFIXES else ("", "")


def _binary(
    found: Mapping[str, object], content_type: str | None, body: bytes, wanted: Collection[str]
) -> CloudEvent:
    given = {name: value for name, value in found.items() if name in wanted and not is_absent(value)}
    declared = content_type or as_text(given.get("datacontenttype"))
    data = read_data(declared, body) if body else Data(DataForm.NULL, declared)
    return _build(given, data, binary=True)


def _structured(body: bytes, wanted: Collection[str]) -> CloudEvent:
    values = jsontext.parse(body)
    if not isinstance(values, dict):
        raise BadEvent(ParkReason.MALFORMED, "a structured CloudEvent must be a JSON object")
    given: dict[str, object] = {}
    for name in wanted & values.keys():
        value = values[name] if name == "time" else as_text(values[name])
        if not is_absent(value):
            given[name] = value
    spans: dict[str, jsontext.Span] = {}
    if "data" in values or "data_base64" in values:
        for name, first, end in jsontext.members(body, jsontext.trim(body)[0]):
            if name in {"data", "data_base64"}:
                spans[name] = first, end
    data = _structured_data(body, spans, given.get("datacontenttype"))
    return _build(given, data._replace(value=values), binary=False)


def _structured_data(body: bytes, spans: Mapping[str, jsontext.Span], declared: object) -> Data:
    content_type = declared if isinstance(declared, str) else None
    if len(spans) == 2:
        raise BadEvent(ParkReason.MALFORMED, "the CloudEvent has both data and data_base64")
    if "data" in spans:
        return Data(DataForm.JSON, content_type, *spans["data"])
    if "data_base64" not in spans:
        return Data(DataForm.NULL, content_type)
    start, end = spans["data_base64"]
    if body[start:end] == b"null":
        return Data(DataForm.NULL, content_type)
    if not _is_base64(body[start:end]):
        raise BadEvent(ParkReason.MALFORMED, "data_base64 of the CloudEvent is not base64 text")
    return Data(DataForm.JSON, content_type, start, end, encoded=True)


def _is_base64(text: bytes) -> bool:
    value = orjson.loads(text) if text[:1] == b'"' else None
    if not isinstance(value, str):
        return False
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except ValueError:  # binascii.Error, or characters outside ASCII
        return False
    return True


def _build(given: Mapping[str, object], data: Data, *, binary: bool) -> CloudEvent:
    """Check the attributes that every CloudEvent needs and build the event."""
    texts = {name: value for name, value in given.items() if isinstance(value, str)}
    version = texts.get("specversion")
    if version is not None and _VERSION.fullmatch(version) is None:
        detail = f"CloudEvents specversion {version[:20]!r} is not supported; send 1.0"
        raise BadEvent(ParkReason.UNSUPPORTED_FORMAT, detail)
    for name in _MANDATORY:
        if name not in texts:
            raise BadEvent(ParkReason.MALFORMED, f"the CloudEvent has no text in its attribute {name}")
    return CloudEvent(
        id=texts.pop("id"),
        source=texts.pop("source"),
        type=texts.pop("type"),
        time=_time(given.get("time")),
        attributes=texts,
        data=data,
        binary=binary,
    )


def _time(value: object) -> str | None:
    """Return ``time`` as RFC 3339 in UTC. It may be such text, a datetime, or an integer of milliseconds.

    Source: CloudEvents AMQP binding 1.0.2, section 3.1.3.1 (a timestamp maps to AMQP milliseconds).
    """
    text: str | None = None
    if is_absent(value):
        return None
    if isinstance(value, bytes | bytearray):
        value = as_text(value)
    if isinstance(value, str):
        text = rfc3339.normalise(value)
    elif isinstance(value, datetime):
        text = rfc3339.from_datetime(value)
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= rfc3339.MAX_MS:
        text = rfc3339.from_ms(value)
    if text is None:
        raise BadEvent(ParkReason.MALFORMED, "time of the CloudEvent is not an RFC 3339 time")
    return text
