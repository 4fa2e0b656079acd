"""The vocabulary: event, target, attempt, outcome, verdict. Imported by all, imports next to nothing of ours.

Data flow: RawMessage -> (decode) Event -> (match) targets -> Attempt / Outcome -> (decide) Verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from consumer.core.access import Access

OPERATORS: Final = "leveret"
"""The tenant of operational events. Only a worker sends them, past the lanes: an event that names it is not
delivered, whoever published it."""


@dataclass(slots=True, kw_only=True)
class RawMessage:
    """One message as the broker gave it; every field but the last three is the producer's word."""

    body: bytes
    headers: Mapping[str, object]
    exchange: str
    routing_key: str
    content_type: str | None = None
    content_encoding: str | None = None
    message_id: str | None = None
    type: str | None = None
    timestamp_s: float | None = None  #: AMQP property, Unix seconds
    expiration: str | None = None  #: AMQP property, milliseconds as text
    app_id: str | None = None
    correlation_id: str | None = None
    queue: str = ""  #: the queue that we consumed from
    redelivered: bool = False
    delivery_count: int = 0  #: header ``x-delivery-count``: how often it came back unsettled
    fault: str | None = None  #: why its headers could not be read at all


class DataForm(StrEnum):
    """How an event's data becomes the ``data`` member of the webhook body."""

    JSON = "json"  #: body[start:end] is JSON text, spliced unchanged
    TEXT = "text"  #: body is UTF-8 text, written as one JSON string
    BASE64 = "base64"  #: body is anything else, written as a base64 JSON string
    NULL = "null"  #: there is no data


@dataclass(slots=True, kw_only=True)
class Event:
    """One domain event, ready to be matched and built into a webhook.

    Nobody assigns to its fields. It is not frozen because a frozen one takes three times as long to make, and
    there is one for every message.
    """

    id: str  #: the ``webhook-id``: ``[A-Za-z0-9_-]{1,64}``, the same on every redelivery
    tenant: str
    type: str  #: words of ``[A-Za-z0-9_]`` joined by single dots
    timestamp: str  #: RFC 3339 in UTC with ``Z``: when the event occurred
    arrived_at: float  #: Unix seconds when we first took it; ``max_age_s`` counts from here
    body: bytes  #: exactly as published
    content_type: str = "application/json"
    form: DataForm = DataForm.JSON
    data_start: int = 0  #: JSON form: first byte of the data in *body*
    data_end: int | None = None  #: JSON form: one past its last byte; None is the end of *body*
    extras: Mapping[str, str] = field(default_factory=dict)  #: more top-level members of the payload
    trace: Mapping[str, str] = field(default_factory=dict)  #: ``traceparent`` and ``tracestate`` to send on
    expires_at: float | None = None  #: Unix seconds from the producer's ``expiration``; None is never
    #: the event said no time, so *timestamp* is when it came
    timestamp_assumed: bool = field(default=False, compare=False)


class OutcomeKind(StrEnum):
    """What came of one HTTP request; a closed set, used as a metric label."""

    OK = "ok"
    HTTP_3XX = "http_3xx"
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    TIMEOUT_CONNECT = "timeout_connect"
    TIMEOUT_TOTAL = "timeout_total"
    DNS = "dns"
    REFUSED = "refused"
    RESET = "reset"
    TLS = "tls"
    PROTOCOL = "protocol"
    TOO_LARGE = "too_large"
    BLOCKED = "blocked"
    PROXY = "proxy"
    LOCAL = "local"  #: this machine ran out of something, or reaches no name server
    CLIENT_ERROR = "client_error"


class SignedRequest(NamedTuple):
    """One webhook, ready for the wire. Always POST."""

    url: str
    headers: Sequence[tuple[str, str]]  #: all that we set; the sender adds Host and Content-Length
    body: bytes
    timeout_s: float  #: total deadline: resolve, connect, TLS, write, headers and body
    access: Access | None = None  #: the endpoint's own TLS and OAuth2


class Control(StrEnum):
    """What an endpoint asks for in the response header ``webhook-delivery``.

    Source: Standard Webhooks and Svix, as documented (Svix' receiver-to-sender header); fault 52.
    """

    DISABLE = "disable"  #: send nothing more to this endpoint
    ABORT_MESSAGE = "abort-message"  #: do not try this webhook again


class Outcome(NamedTuple):
    """What happened in one attempt, as far as the sender knows it."""

    kind: OutcomeKind
    duration_s: float
    status: int | None = None  #: None when no response arrived
    retry_after: str | None = None  #: the header as received
    location: str | None = None  #: the header of a 3xx, shortened, without query and userinfo
    detail: str = ""  #: error text for the operator, shortened; never a secret
    body: bytes = b""  #: start of the response body, at most ``max_response_bytes``
    control: Control | None = None  #: what the endpoint asks for, where we are told to obey


class Attempt(NamedTuple):
    """One finished HTTP request of a delivery, as it is remembered in delivery messages."""

    number: int  #: 1-based
    at: float  #: Unix seconds when it began
    kind: OutcomeKind
    status: int | None
    duration_s: float


class ParkReason(StrEnum):
    """Why something is parked; a closed set, used as a metric label."""

    EXHAUSTED = "exhausted"
    PERMANENT = "permanent"
    EXPIRED = "expired"
    DISABLED = "disabled"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    UNSUPPORTED_FORMAT = "unsupported_format"
    BAD_TENANT = "bad_tenant"
    MISSING_ID = "missing_id"
    POISON = "poison"
    UNDELIVERABLE = "undeliverable"
    LOCKED = "locked"
    UNKNOWN_SUBSCRIPTION = "unknown_subscription"


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint took it."""

    disables: bool = False  #: True when it asked us to send nothing more


@dataclass(frozen=True, slots=True)
class Retry:
    """An attempt failed; try again after a wait."""

    wait_s: float  #: at least 0
    exact: bool = False  #: True when the endpoint named the wait (``Retry-After``)


@dataclass(frozen=True, slots=True)
class Defer:
    """It may not be sent now; no attempt is spent."""

    until: float  #: Unix seconds


@dataclass(frozen=True, slots=True)
class Park:
    """We give up; an operator decides."""

    reason: ParkReason
    detail: str
    disables: bool = False  #: True when the endpoint said that it is gone for good


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing is owed any more: a rule of the subscription's says so."""

    reason: str


Verdict: TypeAlias = Delivered | Retry | Defer | Park | Drop
