"""Read one message from RabbitMQ as an event: plain or CloudEvent, of ours or of a ``[[sources]]`` exchange.

Data flow: RawMessage -> decode_event -> Event -> core.match
                                     └-> NeedsInbox -> published once to the events exchange, with an id
                                     └-> BadEvent -> parked with its reason
Nothing that a producer writes makes it raise anything else. Headers named ``leveret-*`` are never read.
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
from consumer.core.event.content import COMPRESSION_HEADER, JSON_TYPE, Data, is_json, plain_bytes, read_data
from consumer.core.event.sources import Extract, SourceRule, extract
from consumer.core.model import OPERATORS, DataForm, Event, ParkReason, RawMessage
from consumer.core.text import ids, rfc3339

TENANT_PATTERN = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")
RESERVED_MEMBERS = frozenset(
    {"type", "timestamp", "data", "datacontenttype", "datacontentencoding", "originaltype"}
)  #: payload members that an allow-list cannot fill

_TIMESTAMP_HEADER = "timestamp_in_ms"  #: also RabbitMQ's own, of its timestamp interceptor
_EXPIRES_HEADER = "expires_at_ms"
_READ_HEADERS = (_TIMESTAMP_HEADER, _EXPIRES_HEADER, "traceparent", "tracestate")


class MissingId(StrEnum):
    """What is done with a plain event without a ``message_id``."""

    INBOX = "inbox"  #: published once more, with a UUIDv7
    HASH = "hash"  #: its content is its id, so two equal events are one
    PARK = "park"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRules:
    """What the settings say about reading events."""

    max_event_bytes: int = 262_144  #: of the body, as published and without its content encoding
    tenant_header: str = "tenant"
    default_tenant: str | None = "default"  #: for an event that names none; None parks it
    tenant_pattern: re.Pattern[str] = TENANT_PATTERN  #: the whole of a tenant id must match
    missing_id: MissingId = MissingId.INBOX
    default_type: str | None = None  #: for an event without type and routing key; None parks it
    extensions: frozenset[str] = frozenset()  #: CloudEvents extensions that become payload members
    headers: frozenset[str] = frozenset()  #: headers of plain events that become payload members
    send_app_id: bool = True  #: the property ``app_id`` becomes the payload member ``source``
    send_correlation_id: bool = False  #: and ``correlation_id`` the one of its name
    honour_expiration: bool = True  #: the property ``expiration`` ends an event's deliveries
    inboxes: Mapping[str, SourceRule] = field(default_factory=dict)  #: by the name of the inbox queue
    exchanges: Mapping[str, SourceRule] = field(default_factory=dict)  #: by exchange, bound to ours directly

    def __post_init__(self) -> None:
        for name in sorted(self.extensions | self.headers):
            if name in RESERVED_MEMBERS or name.lower().startswith("leveret-"):
                raise ConfigError(f"events: {name!r} cannot be let through, the webhook has its own")
        for name in sorted(self.headers):
            if name in {self.tenant_header, *_READ_HEADERS} or cloudevents.is_attribute(name):
                raise ConfigError(f"events: the header {name!r} cannot be let through, it is read as such")
        if self.default_tenant == OPERATORS:
            raise ConfigError(f"[events] default_tenant: {OPERATORS!r} is reserved, choose another")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsInbox:
    """An event to publish once to the events exchange, confirmed, before the original is acked.

    Published with all of this, it decodes to the event that the original is.
    """

    body: bytes
    headers: Mapping[str, object]
    routing_key: str
    content_type: str | None
    type: str | None
    timestamp_s: int | None  #: Unix seconds
    message_id: str | None  #: None: the caller makes one with :func:`consumer.core.text.ids.uuid7`
    app_id: str | None
    correlation_id: str | None


class _Came(NamedTuple):
    """One message on its way through this module."""

    message: RawMessage
    body: bytes  #: without content encoding
    rules: DecodeRules
    rule: SourceRule | None
    is_inbox: bool  #: it stands in the inbox queue of a source, so it takes the hop
    now: float


class _Said(NamedTuple):
    """What an event says of itself, from wherever it says it."""

    id: str | None  #: fit for ``webhook-id``; None where it has to be made
    tenant: str
    type: str  #: as given
    time: str | None  #: RFC 3339 in UTC, from a CloudEvent; it counts before *at_ms*
    at_ms: int | None  #: Unix milliseconds; None where it does not say
    data: Data
    extras: dict[str, str]
    trace: dict[str, str]


def decode_event(message: RawMessage, rules: DecodeRules, now: float) -> Event | NeedsInbox:
    """Read *message* as an event, or as what must take the inbox hop first.

    Args:
        message: From a queue that producers feed; every word of it is theirs.
        rules: From the settings.
        now: Unix seconds.

    Raises:
        BadEvent: it cannot be delivered; the reason is one of :class:`ParkReason`.
    """
    compression = message.headers.get(COMPRESSION_HEADER)
    body = plain_bytes(message.body, message.content_encoding, rules.max_event_bytes, compression)
    cloud = cloudevents.read(message.content_type, message.headers, body, rules.extensions)
    inbox = rules.inboxes.get(message.queue) if rules.inboxes else None
    rule = inbox or (rules.exchanges.get(message.exchange) if rules.exchanges else None)
    came = _Came(message, body, rules, rule, inbox is not None, now)
    said = _read_plain(came) if cloud is None else _read_cloudevent(came, cloud)
    event = _event(came, said)
    if came.is_inbox or said.id is None:
        return _hop(came, said, event, cloud)
    return event


def turn_of(rules: DecodeRules, value: object) -> str:
    """Return the tenant whose turn a message takes, by the value of its tenant header.

    Empty for what is no tenant id: it will be parked, and gets no turn, lane or binding of its own.
    """
    if fields.is_absent(value):
        return rules.default_tenant or ""
    text = fields.tenant_text(value)
    good = text is not None and text != OPERATORS and rules.tenant_pattern.fullmatch(text)
    return text if text is not None and good else ""


def _event(came: _Came, said: _Said) -> Event:
    """Put the event together; its id stays empty where it has none yet."""
    event_type = fields.normalise_type(said.type)
    extras = said.extras
    if event_type != said.type:
        extras["originaltype"] = said.type
    now_ms = int(came.now * 1000)
    ends_ms = _expires_ms(came, now_ms)
    return Event(
        id=said.id or "",
        tenant=said.tenant,
        type=event_type,
        timestamp=said.time or rfc3339.from_ms(now_ms if said.at_ms is None else said.at_ms),
        timestamp_assumed=said.time is None and said.at_ms is None,
        arrived_at=came.now,
        body=came.body,
        content_type=fields.as_text(said.data.content_type) or JSON_TYPE,
        form=said.data.form,
        data_start=said.data.start,
        data_end=said.data.end,
        extras=extras,
        trace=said.trace,
        expires_at=None if ends_ms is None else ends_ms / 1000,
    )


def _read_plain(came: _Came) -> _Said:
    """Read an event that is no CloudEvent."""
    message, rules = came.message, came.rules
    headers = message.headers
    data = read_data(message.content_type, came.body)
    raw_id = fields.as_text(message.message_id)
    raw_type = fields.as_text(message.type) or fields.as_text(message.routing_key) or rules.default_type
    tenant: object = headers.get(rules.tenant_header)
    at_ms = fields.happened_ms(message.timestamp_s, headers.get(_TIMESTAMP_HEADER))
    if came.rule is not None:
        tenant, found_type, found_id, found_ms = _by_rule(came, came.rule, data)
        raw_type, raw_id = found_type or raw_type, found_id or raw_id
        at_ms = at_ms if found_ms is None else found_ms
        data = _data_by_rule(came, came.rule, data)
    if not raw_type:
        raise BadEvent(ParkReason.MALFORMED, "the event has no type: no property type and no routing key")
    checked = _tenant(rules, tenant)
    return _Said(
        id=ids.event_id(raw_id) if raw_id else _id_of_nameless(came, (checked, raw_type, str(at_ms))),
        tenant=checked,
        type=raw_type,
        time=None,
        at_ms=at_ms,
        data=data,
        extras=_plain_extras(message, rules) | _notes(data),
        trace=_trace(headers),
    )


def _trace(headers: Mapping[str, object]) -> dict[str, str]:
    if "traceparent" not in headers:
        return {}
    return fields.trace_context(headers["traceparent"], headers.get("tracestate"))


def _id_of_nameless(came: _Came, said: tuple[str, str, str]) -> str | None:
    """Return the id of a plain event that brought none; None where the hop gives it one."""
    match came.rules.missing_id:
        case MissingId.INBOX:
            return None
        case MissingId.HASH:
            return ids.hashed_id(*(text.encode() for text in said), came.body)
        case MissingId.PARK:
            raise BadEvent(
                ParkReason.MISSING_ID, "the event has no message_id; set it, or [events] missing_id"
            )


def _read_cloudevent(came: _Came, cloud: CloudEvent) -> _Said:
    """Read a CloudEvent. Of a source's rule only ``tenant`` applies: it names the rest itself."""
    headers, given = came.message.headers, cloud.attributes
    named = (headers.get(came.rules.tenant_header), given.get("tenant"), given.get("tenantid"))
    tenant: object = next((value for value in named if not fields.is_absent(value)), None)
    if came.rule is not None and came.rule.tenant is not None:
        tenant = extract(came.rule.tenant, came.message, cloud.data.value)
    extras = {"id": fields.bounded("id of the CloudEvent", cloud.id)}
    extras["source"] = fields.bounded("source of the CloudEvent", cloud.source)
    for name in ("subject", "dataschema", *sorted(came.rules.extensions)):
        if name in given:
            extras[name] = fields.bounded(f"{name} of the CloudEvent", given[name])
    trace = fields.trace_context(given.get("traceparent"), given.get("tracestate"))
    return _Said(
        id=ids.hashed_id(cloud.source.encode(), cloud.id.encode()),
        tenant=_tenant(came.rules, tenant),
        type=cloud.type,
        time=cloud.time,
        at_ms=fields.happened_ms(came.message.timestamp_s, headers.get(_TIMESTAMP_HEADER)),
        data=cloud.data,
        extras=extras | _notes(cloud.data),
        trace=trace or fields.trace_context(headers.get("traceparent"), headers.get("tracestate")),
    )


def _hop(came: _Came, said: _Said, event: Event, cloud: CloudEvent | None) -> NeedsInbox:
    """Return what to publish so that it decodes to *event*, from headers made anew."""
    now_ms = int(came.now * 1000)
    at_ms = now_ms if said.at_ms is None else said.at_ms
    ours: dict[str, object] = {
        came.rules.tenant_header: event.tenant,
        _TIMESTAMP_HEADER: at_ms,
    } | said.trace
    ends_ms = _expires_ms(came, now_ms)
    if ends_ms is not None:
        ours[_EXPIRES_HEADER] = ends_ms
    message, body, content_type = came.message, came.body, came.message.content_type
    others: Mapping[str, object] = {}
    if cloud is None:
        others = _allowed_headers(message, came.rules)
        if came.rule is not None and came.rule.data is not None and event.form is DataForm.JSON:
            body = body[event.data_start : event.data_end]
    elif cloud.binary:
        others = cloudevents.as_headers(cloud)
        content_type = cloud.data.content_type
    return NeedsInbox(
        body=body,
        headers={**others, **ours},
        routing_key=event.type if came.is_inbox else message.routing_key,
        content_type=fields.as_text(content_type),
        type=said.type if cloud is None else None,
        timestamp_s=at_ms // 1000,
        message_id=said.id,
        app_id=fields.as_text(message.app_id),
        correlation_id=fields.as_text(message.correlation_id),
    )


def _tenant(rules: DecodeRules, value: object) -> str:
    """Return the tenant id; raise BadEvent where it is none or there is none."""
    if fields.is_absent(value):
        if rules.default_tenant is None:
            raise BadEvent(
                ParkReason.BAD_TENANT, f"the event names no tenant; set the header {rules.tenant_header!r}"
            )
        return rules.default_tenant
    text = fields.tenant_text(value)
    if text is None or rules.tenant_pattern.fullmatch(text) is None:
        raise BadEvent(ParkReason.BAD_TENANT, f"{str(text)[:80]!r} is no tenant id")
    if text == OPERATORS:
        detail = f"the tenant {OPERATORS!r} is reserved for operational events; publish under another tenant"
        raise BadEvent(ParkReason.BAD_TENANT, detail)
    return text


def _expires_ms(came: _Came, now_ms: int) -> int | None:
    message = came.message
    if message.expiration is None and _EXPIRES_HEADER not in message.headers:
        return None
    if not came.rules.honour_expiration:
        return None
    return fields.expires_ms(message.expiration, message.headers.get(_EXPIRES_HEADER), now_ms)


def _plain_extras(message: RawMessage, rules: DecodeRules) -> dict[str, str]:
    """Return the payload members that properties and let-through headers become."""
    extras: dict[str, str] = {}
    if message.app_id is None and message.correlation_id is None and not rules.headers:
        return extras
    if rules.send_app_id and (text := fields.as_text(message.app_id)):
        extras["source"] = fields.bounded("app_id", text)
    if rules.send_correlation_id and (text := fields.as_text(message.correlation_id)):
        extras["correlation_id"] = fields.bounded("correlation_id", text)
    return extras | _allowed_headers(message, rules) if rules.headers else extras


def _allowed_headers(message: RawMessage, rules: DecodeRules) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in sorted(rules.headers):
        text = fields.as_text(message.headers.get(name))
        if text is not None:
            found[name] = fields.bounded(f"the header {name}", text)
    return found


def _notes(data: Data) -> dict[str, str]:
    """Return the payload members that say what the data is, where it is not plain JSON."""
    is_plain = data.form is DataForm.JSON and not data.encoded
    if is_plain and (data.content_type == JSON_TYPE or is_json(data.content_type)):
        return {}
    if data.form is DataForm.NULL:
        return {}
    notes: dict[str, str] = {}
    if data.content_type:
        notes["datacontenttype"] = fields.bounded("the content type", fields.as_text(data.content_type) or "")
    if data.encoded or data.form is DataForm.BASE64:
        notes["datacontentencoding"] = "base64"
    return notes


def _by_rule(came: _Came, rule: SourceRule, data: Data) -> tuple[object, str | None, str | None, int | None]:
    """Return the tenant, type, id and time (Unix milliseconds) that a source's rule finds."""

    def found(where: Extract | None) -> object:
        return None if where is None else extract(where, came.message, data.value)

    tenant = found(rule.tenant) if rule.tenant else came.message.headers.get(came.rules.tenant_header)
    return (
        tenant,
        fields.as_text(found(rule.type)),
        fields.as_text(found(rule.id)),
        _time_ms(found(rule.time)),
    )


def _time_ms(value: object) -> int | None:
    """Read a source's time: RFC 3339 text, a timestamp, or a number of seconds or milliseconds."""
    if isinstance(value, int | float):
        return fields.happened_ms(value, None)
    text = fields.as_text(value)
    return None if text is None else rfc3339.parse_ms(text)


def _data_by_rule(came: _Came, rule: SourceRule, data: Data) -> Data:
    """Return the part of a JSON body that the rule names as the data."""
    if rule.data is None or data.form is not DataForm.JSON:
        return data
    span = jsontext.find(came.body, rule.data.pointer)
    if span is None:
        pointer = "/".join(("", *rule.data.pointer))
        raise BadEvent(
            ParkReason.MALFORMED, f"the body has nothing at {pointer}, where the source keeps its data"
        )
    return Data(DataForm.JSON, data.content_type, *span)
