"""The shared vocabulary: event, target, attempt, outcome, verdict. Every other package may import it.

Data flow: RawMessage -> (decode) Event -> (match) targets -> Attempt / Outcome -> (decide) Verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from consumer.core.access import Access

OPERATORS: Final = "leveret"
"""The tenant of operational events. Only a worker publishes them, and they bypass the lanes. An event from a
lane that names this tenant is refused, whoever published it."""

TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})"
)
"""Trace id, parent id and flags. Source: W3C Trace Context, "traceparent Header Field Values"."""


@dataclass(slots=True, kw_only=True)
class RawMessage:
    """One message as the broker gave it. The producer chose every field but the last four."""

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
    queue: str = ""  #: the queue from which this worker consumed it
    redelivered: bool = False
    delivery_count: int = 0  #: header ``x-delivery-count``: how often the message came back unsettled
    fault: str | None = None  #: why the message's headers could not be read; None if they could


class DataForm(StrEnum):
    """How an event's data becomes the ``data`` member of the webhook body."""

    JSON = "json"  #: body[start:end] is JSON text and is spliced unchanged
    TEXT = "text"  #: body is UTF-8 text and is written as one JSON string
    BASE64 = "base64"  #: body is anything else and is written as a base64 JSON string
    NULL = "null"  #: there is no data


@dataclass(slots=True, kw_only=True)
class Event:
    """One domain event, ready to be matched and built into a webhook.

    Nobody assigns to its fields. The class is not frozen because a frozen object takes three times as long to
    create, and each message creates one.
    """

    id: str  #: the ``webhook-id``: ``[A-Za-z0-9_-]{1,64}``, the same on every redelivery
    tenant: str
    type: str  #: segments of ``[A-Za-z0-9_]`` joined by single dots
    timestamp: str  #: RFC 3339 in UTC with ``Z``: when the event occurred
    arrived_at: float  #: Unix seconds when a worker first took it; ``max_age_s`` counts from here
    body: bytes  #: exactly as published
    content_type: str = "application/json"
    form: DataForm = DataForm.JSON
    data_start: int = 0  #: JSON form: first byte of the data in *body*
    data_end: int | None = None  #: JSON form: one past the last byte of the data; None is the end of *body*
    extras: Mapping[str, str] = field(default_factory=dict)  #: further top-level members of the payload
    trace: Mapping[str, str] = field(default_factory=dict)  #: ``traceparent`` and ``tracestate``
    expires_at: float | None = None  #: Unix seconds from the producer's ``expiration``; None is never
    #: True if the event named no time, so that *timestamp* is the time of its arrival
    timestamp_assumed: bool = field(default=False, compare=False)

    @property
    def trace_id(self) -> str | None:
        """The 32 hex digits in ``traceparent`` that name the event's trace; None without a valid one."""
        parent = self.trace_parent
        return None if parent is None else parent[0]

    @property
    def trace_parent(self) -> tuple[str, str, str] | None:
        """The hex digits of trace id, parent id and flags in ``traceparent``; None without a valid one."""
        found = TRACEPARENT.fullmatch(str(self.trace.get("traceparent"))) if self.trace else None
        return None if found is None else (found[1], found[2], found[3])


class OutcomeKind(StrEnum):
    """The result of one HTTP request; a closed set, used as a metric label."""

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
    LOCAL = "local"  #: this machine ran out of a resource, or reaches no name server
    CLIENT_ERROR = "client_error"


class SignedRequest(NamedTuple):
    """One webhook, ready to be sent. The method is always POST."""

    url: str
    headers: Sequence[tuple[str, str]]  #: all headers but Host and Content-Length, which the sender adds
    body: bytes
    timeout_s: float  #: total deadline: name look-up, connect, TLS, write, response headers and body
    access: Access | None = None  #: the endpoint's own TLS and OAuth2


class Control(StrEnum):
    """A request that an endpoint makes in the response header ``webhook-delivery``.

    Source: Standard Webhooks and Svix, as documented (Svix' receiver-to-sender header); fault 52.
    """

    DISABLE = "disable"  #: send nothing more to this endpoint
    ABORT_MESSAGE = "abort-message"  #: do not try this webhook again


class Outcome(NamedTuple):
    """The result of one attempt, as far as the sender knows it."""

    kind: OutcomeKind
    duration_s: float
    status: int | None = None  #: None when no response arrived
    retry_after: str | None = None  #: the header as received
    location: str | None = None  #: the header of a 3xx, shortened, without query and userinfo
    detail: str = ""  #: error text for the operator, shortened; never a secret
    body: bytes = b""  #: start of the response body, at most ``max_response_bytes``
    control: Control | None = None  #: the endpoint's request, if the settings allow Leveret to obey it
    content_type: str = ""  #: header of the response, shortened and escaped; empty unless it is kept


class Attempt(NamedTuple):
    """One finished HTTP request of a delivery, as delivery messages record it."""

    number: int  #: 1-based
    at: float  #: Unix seconds when it began
    kind: OutcomeKind
    status: int | None
    duration_s: float
    wait_s: float | None = None  #: the wait that was chosen after it; None if no retry followed
    replay: int = 0  #: how often the delivery had been replayed before this attempt


class ParkReason(StrEnum):
    """The reason why an entry is parked; a closed set, used as a metric label."""

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
    BACKLOG = "backlog"


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint accepted the webhook."""

    disables: bool = False  #: True if the endpoint asked for no further webhooks


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed; another one follows after a wait."""

    wait_s: float  #: at least 0
    exact: bool = False  #: True if the endpoint named the wait (``Retry-After``)


@dataclass(frozen=True, slots=True)
class Defer:
    """The delivery may not be sent now; no attempt is spent."""

    until: float  #: Unix seconds


@dataclass(frozen=True, slots=True)
class Park:
    """Leveret gives up; an operator decides."""

    reason: ParkReason
    detail: str
    disables: bool = False  #: True if the endpoint reported that it is gone for good


@dataclass(frozen=True, slots=True)
class Drop:
    """A rule of the subscription ends the delivery: nothing more is owed."""

    reason: str


Verdict: TypeAlias = Delivered | Retry | Defer | Park | Drop
