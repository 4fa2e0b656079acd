"""Read one RabbitMQ message as an event: plain or CloudEvent, from our own or a ``[[sources]]`` exchange.

Data flow: RawMessage -> decode_event -> Event -> core.match
                                     └-> NeedsInbox -> published once to the events exchange, with an id
                                     └-> BadEvent -> parked with its reason
No message makes this module raise any other error. Headers named ``leveret-*`` are never read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from consumer.core.errors import BadEvent, ConfigError
from consumer.core.event import amqp_values as fields
from consumer.core.event import cloudevents, jsontext
from consumer.core.event.cloudevents import CloudEvent
from consumer.core.event.content import COMPRESSION_HEADER, JSON_TYPE, Data, decompress, is_json, read_data
from consumer.core.event.sources import Extract, SourceRule, extract
from consumer.core.model import OPERATORS, DataForm, Event, ParkReason, RawMessage
from consumer.core.text import ids, rfc3339

TENANT_PATTERN = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")
RESERVED_MEMBERS = frozenset(
    {"type", "timestamp", "data", "datacontenttype", "datacontentencoding", "originaltype"}
)  #: payload members that an allow-list cannot set

_TIMESTAMP_HEADER = "timestamp_in_ms"  #: RabbitMQ's timestamp interceptor writes this header too
_EXPIRES_HEADER = "expires_at_ms"
_READ_HEADERS = (_TIMESTAMP_HEADER, _EXPIRES_HEADER, "traceparent", "tracestate")


class MissingId(StrEnum):
    """The treatment of a plain event without a ``message_id``."""

    INBOX = "inbox"  #: the event is published again, with a UUIDv7
    HASH = "hash"  #: the id is a hash of the content, so that two equal events count as one
    PARK = "park"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRules:
    """The settings about reading events."""

    max_event_bytes: int = 262_144  #: bound of the body, as published and without its content encoding
    tenant_header: str = "tenant"
    default_tenant: str | None = "default"  #: for an event that names no tenant; None parks such an event
    tenant_pattern: re.Pattern[str] = TENANT_PATTERN  #: must match the whole tenant id
    missing_id: MissingId = MissingId.INBOX
    default_type: str | None = None  #: for an event without type and routing key; None parks such an event
    extensions: frozenset[str] = frozenset()  #: CloudEvents extensions that become payload members
    headers: frozenset[str] = frozenset()  #: headers of plain events that become payload members
    send_app_id: bool = True  #: the property ``app_id`` becomes the payload member ``source``
    send_correlation_id: bool = False  #: the property ``correlation_id`` becomes the member of that name
    honour_expiration: bool = True  #: the property ``expiration`` limits an event's deliveries
    inboxes: Mapping[str, SourceRule] = field(default_factory=dict)  #: by the name of the inbox queue
    exchanges: Mapping[str, SourceRule] = field(default_factory=dict)  #: by exchange, bound to ours directly

    def __post_init__(self) -> None:
        for name in sorted(self.extensions | self.headers):
            if name in RESERVED_MEMBERS or name.lower().startswith("leveret-"):
                raise ConfigError(f"events: {name!r} cannot be passed on, the webhook has its own; remove it")
        for name in sorted(self.headers):
            if name in {self.tenant_header, *_READ_HEADERS} or cloudevents.is_attribute(name):
                raise ConfigError(f"events: {name!r} cannot be passed on, Leveret reads it itself; remove it")
        if self.default_tenant == OPERATORS:
            raise ConfigError(f"[events] default_tenant: {OPERATORS!r} is reserved, choose another")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsInbox:
    """An event to publish once to the events exchange, confirmed, before the original is acked.

    The published message decodes to the same event as the original.
    """

    body: bytes
    headers: Mapping[str, object]
    routing_key: str
    content_type: str | None
    type: str | None
    timestamp_s: int | None  #: Unix seconds
    message_id: str | None  #: None: the caller creates one with :func:`consumer.core.text.ids.uuid7`
    app_id: str | None
    correlation_id: str | None


class _Incoming(NamedTuple):
    """One message while it is decoded, with the rules that apply to it."""

    message: RawMessage
    body: bytes  #: without content encoding
    rules: DecodeRules
    rule: SourceRule | None
    is_inbox: bool  #: the message comes from the inbox queue of a source, so it takes the hop
    now: float


class _Parts(NamedTuple):
    """The parts of an event, collected from properties, headers and body."""

    id: str | None  #: valid as ``webhook-id``; None if it must be created
    tenant: str
    type: str  #: as given
    time: str | None  #: RFC 3339 in UTC, from a CloudEvent; it takes precedence over *at_ms*
    at_ms: int | None  #: Unix milliseconds; None if the message names no time
    data: Data
    extras: dict[str, str]
    trace: dict[str, str]


def decode_event(message: RawMessage, rules: DecodeRules, now: float) -> Event | NeedsInbox:
    """Read *message* as an event, or as a message that must take the inbox hop first.

    Args:
        message: A message from a queue that producers feed; no part of it is trusted.
        rules: From the settings.
        now: Unix seconds.

    Raises:
        BadEvent: the message cannot be delivered; the reason is one of :class:`ParkReason`.
    """
    compression = message.headers.get(COMPRESSION_HEADER)
    body = decompress(message.body, message.content_encoding, rules.max_event_bytes, compression)
    cloud = cloudevents.read(message.content_type, message.headers, body, rules.extensions)
    inbox = rules.inboxes.get(message.queue) if rules.inboxes else None
    rule = inbox or (rules.exchanges.get(message.exchange) if rules.exchanges else None)
    incoming = _Incoming(message, body, rules, rule, inbox is not None, now)
    parts = _read_plain(incoming) if cloud is None else _read_cloudevent(incoming, cloud)
    event = _event(incoming, parts)
    if incoming.is_inbox or parts.id is None:
        return _inbox_message(incoming, parts, event, cloud)
    return event


def scheduling_tenant(rules: DecodeRules, value: object) -> str:
    """Return the tenant for which the scheduler queues a message, from the value of its tenant header.

    The result is empty if the value is not a valid tenant id. Such a message will be parked; it has no share,
    lane or binding of its own.
    """
    if fields.is_absent(value):
        return rules.default_tenant or ""
    text = fields.tenant_text(value)
    valid = text is not None and text != OPERATORS and rules.tenant_pattern.fullmatch(text)
    return text if text is not None and valid else ""


def _event(incoming: _Incoming, parts: _Parts) -> Event:
    """Build the event; its id stays empty if it has none yet."""
    event_type = fields.normalise_type(parts.type)
    extras = parts.extras
    if event_type != parts.type:
        extras["originaltype"] = parts.type
    now_ms = int(incoming.now * 1000)
    ends_ms = _expires_ms(incoming, now_ms)
    return Event(
        id=parts.id or "",
        tenant=parts.tenant,
        type=event_type,
        timestamp=parts.time or rfc3339.from_ms(now_ms if parts.at_ms is None else parts.at_ms),
        timestamp_assumed=parts.time is None and parts.at_ms is None,
        arrived_at=incoming.now,
        body=incoming.body,
        content_type=fields.as_text(parts.data.content_type) or JSON_TYPE,
        form=parts.data.form,
        data_start=parts.data.start,
        data_end=parts.data.end,
        extras=extras,
        trace=parts.trace,
        expires_at=None if ends_ms is None else ends_ms / 1000,
    )


def _read_plain(incoming: _Incoming) -> _Parts:
    """Read an event that is not a CloudEvent."""
    message, rules = incoming.message, incoming.rules
    headers = message.headers
    data = read_data(message.content_type, incoming.body)
    raw_id = fields.as_text(message.message_id)
    raw_type = fields.as_text(message.type) or fields.as_text(message.routing_key) or rules.default_type
    tenant: object = headers.get(rules.tenant_header)
    at_ms = fields.occurred_ms(message.timestamp_s, headers.get(_TIMESTAMP_HEADER))
    if incoming.rule is not None:
        tenant, found_type, found_id, found_ms = _fields_by_rule(incoming, incoming.rule, data)
        raw_type, raw_id = found_type or raw_type, found_id or raw_id
        at_ms = at_ms if found_ms is None else found_ms
        data = _data_by_rule(incoming, incoming.rule, data)
    if not raw_type:
        raise BadEvent(ParkReason.MALFORMED, "the event has no type: no property type and no routing key")
    checked = _tenant(rules, tenant)
    return _Parts(
        id=ids.event_id(raw_id) if raw_id else _missing_id(incoming, (checked, raw_type, str(at_ms))),
        tenant=checked,
        type=raw_type,
        time=None,
        at_ms=at_ms,
        data=data,
        extras=_property_extras(message, rules) | _data_members(data),
        trace=_trace(headers),
    )


def _trace(headers: Mapping[str, object]) -> dict[str, str]:
    if "traceparent" not in headers:
        return {}
    return fields.trace_context(headers["traceparent"], headers.get("tracestate"))


def _missing_id(incoming: _Incoming, parts: tuple[str, str, str]) -> str | None:
    """Return an id for a plain event without one; None if the inbox hop creates it."""
    match incoming.rules.missing_id:
        case MissingId.INBOX:
            return None
        case MissingId.HASH:
            return ids.hashed_id(*(text.encode() for text in parts), incoming.body)
        case MissingId.PARK:
            raise BadEvent(
                ParkReason.MISSING_ID, "the event has no message_id; set it, or [events] missing_id"
            )


def _read_cloudevent(incoming: _Incoming, cloud: CloudEvent) -> _Parts:
    """Read a CloudEvent. A source's rule supplies only ``tenant``: the CloudEvent names the rest itself."""
    headers, given = incoming.message.headers, cloud.attributes
    named = (headers.get(incoming.rules.tenant_header), given.get("tenant"), given.get("tenantid"))
    tenant: object = next((value for value in named if not fields.is_absent(value)), None)
    if incoming.rule is not None and incoming.rule.tenant is not None:
        tenant = extract(incoming.rule.tenant, incoming.message, cloud.data.value)
    extras = {"id": fields.check_length("id of the CloudEvent", cloud.id)}
    extras["source"] = fields.check_length("source of the CloudEvent", cloud.source)
    for name in ("subject", "dataschema", *sorted(incoming.rules.extensions)):
        if name in given:
            extras[name] = fields.check_length(f"{name} of the CloudEvent", given[name])
    trace = fields.trace_context(given.get("traceparent"), given.get("tracestate"))
    return _Parts(
        id=ids.hashed_id(cloud.source.encode(), cloud.id.encode()),
        tenant=_tenant(incoming.rules, tenant),
        type=cloud.type,
        time=cloud.time,
        at_ms=fields.occurred_ms(incoming.message.timestamp_s, headers.get(_TIMESTAMP_HEADER)),
        data=cloud.data,
        extras=extras | _data_members(cloud.data),
        trace=trace or fields.trace_context(headers.get("traceparent"), headers.get("tracestate")),
    )


def _inbox_message(incoming: _Incoming, parts: _Parts, event: Event, cloud: CloudEvent | None) -> NeedsInbox:
    """Return the message whose decoding gives *event*, with headers built from the decoded values."""
    now_ms = int(incoming.now * 1000)
    at_ms = now_ms if parts.at_ms is None else parts.at_ms
    headers: dict[str, object] = {
        incoming.rules.tenant_header: event.tenant,
        _TIMESTAMP_HEADER: at_ms,
    } | parts.trace
    ends_ms = _expires_ms(incoming, now_ms)
    if ends_ms is not None:
        headers[_EXPIRES_HEADER] = ends_ms
    message, body, content_type = incoming.message, incoming.body, incoming.message.content_type
    others: Mapping[str, object] = {}
    if cloud is None:
        others = _allowed_headers(message, incoming.rules)
        if incoming.rule is not None and incoming.rule.data is not None and event.form is DataForm.JSON:
            body = body[event.data_start : event.data_end]
    elif cloud.binary:
        others = cloudevents.as_headers(cloud)
        content_type = cloud.data.content_type
    return NeedsInbox(
        body=body,
        headers={**others, **headers},
        routing_key=event.type if incoming.is_inbox else message.routing_key,
        content_type=fields.as_text(content_type),
        type=parts.type if cloud is None else None,
        timestamp_s=at_ms // 1000,
        message_id=parts.id,
        app_id=fields.as_text(message.app_id),
        correlation_id=fields.as_text(message.correlation_id),
    )


def _tenant(rules: DecodeRules, value: object) -> str:
    """Return the tenant id; raise BadEvent if it is absent or not valid."""
    if fields.is_absent(value):
        if rules.default_tenant is None:
            raise BadEvent(
                ParkReason.BAD_TENANT, f"the event names no tenant; set the header {rules.tenant_header!r}"
            )
        return rules.default_tenant
    text = fields.tenant_text(value)
    if text is None or rules.tenant_pattern.fullmatch(text) is None:
        raise BadEvent(ParkReason.BAD_TENANT, f"{str(text)[:80]!r} is not a valid tenant id")
    if text == OPERATORS:
        detail = f"the tenant {OPERATORS!r} is reserved for operational events; publish under another tenant"
        raise BadEvent(ParkReason.BAD_TENANT, detail)
    return text


def _expires_ms(incoming: _Incoming, now_ms: int) -> int | None:
    message = incoming.message
    if message.expiration is None and _EXPIRES_HEADER not in message.headers:
        return None
    if not incoming.rules.honour_expiration:
        return None
    return fields.expires_ms(message.expiration, message.headers.get(_EXPIRES_HEADER), now_ms)


def _property_extras(message: RawMessage, rules: DecodeRules) -> dict[str, str]:
    """Return the payload members that come from properties and from allowed headers."""
    extras: dict[str, str] = {}
    if message.app_id is None and message.correlation_id is None and not rules.headers:
        return extras
    if rules.send_app_id and (text := fields.as_text(message.app_id)):
        extras["source"] = fields.check_length("app_id", text)
    if rules.send_correlation_id and (text := fields.as_text(message.correlation_id)):
        extras["correlation_id"] = fields.check_length("correlation_id", text)
    return extras | _allowed_headers(message, rules) if rules.headers else extras


def _allowed_headers(message: RawMessage, rules: DecodeRules) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in sorted(rules.headers):
        text = fields.as_text(message.headers.get(name))
        if text is not None:
            found[name] = fields.check_length(f"the header {name}", text)
    return found


def _data_members(data: Data) -> dict[str, str]:
    """Return the payload members that describe the data; none for plain JSON."""
    is_plain = data.form is DataForm.JSON and not data.encoded
    if is_plain and (data.content_type == JSON_TYPE or is_json(data.content_type)):
        return {}
    if data.form is DataForm.NULL:
        return {}
    members: dict[str, str] = {}
    if data.content_type:
        members["datacontenttype"] = fields.check_length(
            "the content type", fields.as_text(data.content_type) or ""
        )
    if data.encoded or data.form is DataForm.BASE64:
        members["datacontentencoding"] = "base64"
    return members


def _fields_by_rule(
    incoming: _Incoming, rule: SourceRule, data: Data
) -> tuple[object, str | None, str | None, int | None]:
    """Return the tenant, type, id and time (Unix milliseconds) that a source's rule finds."""

    def found(where: Extract | None) -> object:
        return None if where is None else extract(where, incoming.message, data.value)

    tenant = found(rule.tenant) if rule.tenant else incoming.message.headers.get(incoming.rules.tenant_header)
    return (
        tenant,
        fields.as_text(found(rule.type)),
        fields.as_text(found(rule.id)),
        _time_ms(found(rule.time)),
    )


def _time_ms(value: object) -> int | None:
    """Read a source's time: RFC 3339 text, a timestamp, or a number of seconds or milliseconds."""
    if isinstance(value, int | float):
        return fields.occurred_ms(value, None)
    text = fields.as_text(value)
    return None if text is None else rfc3339.parse_ms(text)


def _data_by_rule(incoming: _Incoming, rule: SourceRule, data: Data) -> Data:
    """Return the part of a JSON body that the rule names as the data."""
    if rule.data is None or data.form is not DataForm.JSON:
        return data
    span = jsontext.find(incoming.body, rule.data.pointer)
    if span is None:
        pointer = "/".join(("", *rule.data.pointer))
        raise BadEvent(
            ParkReason.MALFORMED, f"the body has no value at {pointer}, where the source's rule finds data"
        )
    return Data(DataForm.JSON, data.content_type, *span)
