"""The JSON of events, deliveries and attempts."""

from __future__ import annotations

from consumer.web.models.base import Out


class StepOut(Out):
    """One step of an event or of a delivery."""

    at: str | None
    step: str
    """received, unmatched, settled, attempt, deferred, parked, cancelled or replayed."""
    event_id: str
    tenant: str
    type: str
    subscription_id: str | None
    number: int
    """Number of the attempt; of a received event the matched subscriptions."""
    kind: str | None
    """Of an attempt: such as `ok`, `http_5xx`, `timeout_total`, `dns`."""
    status: int | None
    latency_s: float | None
    wait_s: float | None
    until: str | None
    """When the wait after this step ends."""
    reason: str | None
    """Of an attempt its verdict: delivered, retry, defer, park or drop."""
    detail: str | None
    answer: str | None
    """Start of the answer if it is text."""
    answer_base64: str | None
    """Start of the answer if it is not text."""
    answer_type: str | None


class DeliveryRow(Out):
    """One delivery: an event for one subscription."""

    delivery_id: str | None
    """Null for a message that was parked before it became an event."""
    event_id: str
    tenant: str | None
    type: str
    subscription_id: str | None
    subscription: str | None
    """tenant/name; null if the subscription is gone."""
    status: str
    """waiting, delivering, delivered, parked or cancelled."""
    since: str | None
    until: str | None
    """Of a waiting delivery: its next attempt at the earliest."""
    attempts: int
    parked_entry: str | None
    parked_reason: str | None
    parked_detail: str | None
    """The reason in words, as the index of parked entries has it."""
    parked_until: str | None
    """When the parked queue removes it."""
    last: str | None
    """Its last step in words."""


class Delivery(DeliveryRow):
    """One delivery with its steps."""

    steps: list[StepOut]


class WithoutDelivery(Out):
    """A subscription of the tenant without a step of the event, judged as it is configured now."""

    subscription_id: str
    subscription: str
    match_now: str
    """matches, disabled, paused or pattern."""
    events: list[str]
    disabled_reason: str | None


class Trace(Out):
    """All that is known of one event, as `leveret trace --json` prints it."""

    event_id: str
    tenant: str | None
    type: str
    steps: list[StepOut]
    """Steps of the whole event."""
    deliveries: list[Delivery]
    matched_without_step: int
    """Subscriptions that matched and of which no step is known yet."""
    without_delivery: list[WithoutDelivery]


class Traces(Out):
    """The traces of one event id: several if tenants share it."""

    items: list[Trace]
