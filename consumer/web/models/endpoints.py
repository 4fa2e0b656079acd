"""The JSON of endpoints, of what can be done to a subscription, of policies, and of published events."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from consumer.core.message.records import DETAIL_MAX
from consumer.web.models.base import Out, Subscription


class _In(Out):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class DisableOptions(_In):
    """Options of a disabling."""

    reason: Annotated[str, Field(min_length=1, max_length=DETAIL_MAX)] = "by hand"
    """A note for later readers."""


class RotateOptions(_In):
    """Options of a new secret."""

    secret: str | None = None
    """The new secret; absent: Leveret makes one of the same kind."""
    expire_in: Annotated[str, Field(max_length=64)] = "24h"
    """Time in which the replaced secret still signs, such as `24h` or `7d`; at most 366 days."""
    drop_old: bool = False
    """Add no secret, and end the overlap: only the newest secret signs."""
    lost_key: bool = False
    """The key of the store is lost: give up the secrets that it sealed."""


class RotatedSubscription(Subscription):
    """A subscription with a new secret."""

    secret: str | None
    """The generated secret, shown this once; null if the client gave one, and for ed25519."""
    public_key: str | None
    """With which receivers verify, for ed25519."""
    ends_at: list[int]
    """When each secret stops to sign, in Unix seconds; 0 for the newest, and for one without an end."""


class Paused(Out):
    """The result of a pause."""

    paused: bool
    changed: bool
    """False: it was so already."""


class Released(Out):
    """Waiting deliveries that are sent now."""

    released: int
    heard: bool
    """Whether a worker listens; otherwise the change holds from its next start on."""
    unread: list[str]
    """Why some messages were not looked at; they are sent at their own times."""


class Opened(Out):
    """The result of a forced opening."""

    heard: bool
    """Whether a worker listens; otherwise the change holds from its next start on."""


class Trial(Out):
    """The outcome of a test event."""

    ok: bool
    """Whether the answer was 2xx."""
    code: str
    """A status such as `503`, or a kind such as `timeout_total`."""
    kind: str
    """Such as `ok`, `http_5xx`, `timeout_total`, `dns`."""
    status: int | None
    duration_s: float
    detail: str
    advice: str | None
    """Meaning and remedy of a failure."""
    event_id: str
    timestamp: int
    signature: str
    body: str
    """The body that was sent."""
    answer: str
    """Start of the response body; bytes that are not UTF-8 are replaced."""
    answer_type: str


class LastError(Out):
    """The last failed attempt."""

    at: str
    code: str
    """A status such as `503`, or a kind such as `timeout_total`."""
    detail: str
    answer: str
    """Start of the response body; bytes that are not UTF-8 are replaced."""
    answer_type: str


class EndpointLine(Out):
    """One endpoint. Numbers of attempts are those of the last hour; null is unknown."""

    subscription_id: str
    tenant: str
    name: str
    url: str
    """URL without its query, which may contain a token."""
    events: list[str]
    state: str
    """open, forced, probing, degraded, resting, paused, disabled or well."""
    since: str | None
    until: str | None
    """End of the rest that the endpoint asked for."""
    reason: str | None
    success_ratio: float | None
    p95_s: float | None
    attempts: int | None
    waiting: int
    """Deliveries that wait for an attempt, by the history."""
    parked: int
    failures_in_row: int
    last_error: LastError | None


class ErrorCount(Out):
    """How often attempts failed in one way within the last hour."""

    code: str
    count: int
    last_at: str
    """Start of the minute with the last one."""


class Threshold(Out):
    """One setting of the breaker."""

    name: str
    unit: str
    value: float | None
    """Null: the default holds."""
    default: float


class Endpoint(EndpointLine):
    """One endpoint with series of the last hour, errors and settings."""

    success: list[float | None]
    """Share of successes in each of the last 60 minutes, the oldest first; null: no attempt."""
    latency_p95_s: list[float | None]
    errors: list[ErrorCount]
    thresholds: list[Threshold]
    history_is_off: bool


class Thresholds(_In):
    """New settings of the breaker; null: the default holds again."""

    failures: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Failures in a row that open the breaker; 0 switches it off."""
    failure_ratio: Annotated[float, Field(ge=0, le=1)] | None = None
    window_s: Annotated[float, Field(ge=0.1, le=3_600)] | None = None
    min_requests: Annotated[int, Field(ge=1, le=100_000)] | None = None
    cooldown_s: Annotated[float, Field(ge=0.01, le=3_600)] | None = None
    cooldown_max_s: Annotated[float, Field(ge=0.01, le=86_400)] | None = None


class EndpointAttempt(Out):
    """One attempt."""

    at: str
    event_id: str
    type: str
    number: int
    """1-based."""
    kind: str
    status: int | None
    duration_s: float | None
    verdict: str
    """delivered, retry, defer, park or drop."""
    wait_s: float | None
    """Wait until the next attempt."""
    detail: str
    answer: str
    """Start of the response body; bytes that are not UTF-8 are replaced."""
    answer_type: str


class Policy(Out):
    """One retry policy, with the waits that follow from it. Waits are in seconds, before jitter."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    name: str
    is_default: bool
    """Whether it holds for subscriptions that name none."""
    summary: str
    max_attempts: int
    delays_s: list[float]
    delays_min_s: list[float]
    """With the least jitter."""
    delays_max_s: list[float]
    """With the most jitter."""
    cumulative_s: list[float]
    """Time of each attempt since the first one."""
    total_s: float
    max_age_s: float
    """Age at which a delivery ends in any case."""


class EventFields(_In):
    """An event to publish."""

    type: Annotated[str, Field(min_length=1, max_length=255)]
    """Words joined by full stops, such as `order.created`."""
    data: Any
    """Any JSON; receivers get these bytes unchanged."""
    id: Annotated[str, Field(min_length=1, max_length=235)] | None = None
    """Absent: the Idempotency-Key, or else a new one."""


class PublishedEvent(Out):
    """An event that the broker has confirmed."""

    id: str
    webhook_id: str
    """The id that receivers see."""
    tenant: str
    type: str
    at: str
    size_bytes: int
    repeated: bool
    """Whether an earlier request with this Idempotency-Key had published it."""


class Hour(Out):
    """The last hour. Series have 60 minutes, the oldest first; null is unknown."""

    success: list[float | None]
    latency_p95_s: list[float | None]
    deliveries_per_s: list[float | None]
    parked: list[float | None]
    success_ratio: float | None
    p95_s: float | None
    attempts: int
    waiting: int
    endpoints: int
    parked_count: int
    parked_added: int
    parked_left: int
    """Entries that were sent again."""
    parked_top_reason: str | None
