"""Record the spans of events and attempts, once they have ended.

Data flow: a finished take or attempt -> sampled or not -> Span as bytes -> the queue of the exporter.

No span contains a path, a header, a body, an answer or baggage: a path may be a secret, as with chat
services. An endpoint gets the producer's own traceparent, unchanged, if its subscription asks for it
(``send_trace``).

Source: OpenTelemetry semantic conventions, "Messaging spans", "RabbitMQ", "HTTP spans".
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import (
    Attempt,
    Defer,
    Delivered,
    Drop,
    Outcome,
    OutcomeKind,
    Park,
    RawMessage,
    Retry,
    Verdict,
)
from consumer.core.retry.outcomes import KINDS
from consumer.core.spans.context import Sampling, SpanContext, event_context
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.urls import parse_url
from consumer.edges.tracing.otlp import as_item, part_of_span, put, safe_text
from consumer.tracing_ports import EventResult, EventTaken, TracingReports

SHARED_MAX: Final = 10_000
"""Subscriptions, and queues, whose shared bytes are kept; beyond it all are made anew."""

_LOCAL_PARENT: Final = 0x101  #: flags of a span: sampled; its parent or link is known, and of this service
_REMOTE_PARENT: Final = 0x301  #: the same, and its parent is of another service
_FAILED: Final = frozenset({EventResult.PARKED, EventResult.GIVEN_BACK})  #: results that are errors of a span
_OWN_WORDS: Final = frozenset(
    (OutcomeKind.DNS, OutcomeKind.TLS, OutcomeKind.RESET, OutcomeKind.TIMEOUT_TOTAL, OutcomeKind.LOCAL)
)
"""Kinds whose detail never quotes an answer: neither of an endpoint nor of a proxy."""

_VERDICTS: Final = {Delivered: "delivered", Retry: "retry", Defer: "defer", Park: "park", Drop: "drop"}


class _Shared(NamedTuple):
    """The bytes that all attempts of a subscription share."""

    subscription: Subscription
    part: bytes


class OtlpTracer:
    """Implements :class:`consumer.tracing_ports.Tracer`."""

    is_on: Final = True

    def __init__(self, add: Callable[[bytes], None], sampling: Sampling, reports: TracingReports) -> None:
        """Bind to a queue.

        Args:
            add: Takes the bytes of one span.
            sampling: Which events are recorded.
            reports: Takes bugs.
        """
        self._add = add
        self._sampling = sampling
        self._reports = reports
        self._by_subscription: dict[str, _Shared] = {}
        self._by_queue: dict[str, bytes] = {}

    def taken(self, taken: EventTaken) -> None:
        """Record the span of one take of an event."""
        try:
            self._taken(taken)
        except Exception as error:  # a bug must not stop deliveries
            self._reports.task_failed("tracing", error)

    def attempted(
        self,
        message: DeliveryMessage,
        subscription: Subscription,
        attempt: Attempt,
        outcome: Outcome,
        verdict: Verdict,
    ) -> str | None:
        """Record the span of one attempt; return its trace, or None where it is not recorded."""
        try:
            context = event_context(message.event, message.first_arrived_at)
            if not self._sampling.takes(message.event, context.trace_id):
                return None
            span = _begun(message, context, attempt)
            _put_attempt(span, message, attempt)
            _put_result(span, outcome, _VERDICTS[type(verdict)])
            self._add(as_item(self._shared(subscription) + span.SerializeToString()))
            return span.trace_id.hex()
        except Exception as error:  # a bug must not stop deliveries
            self._reports.task_failed("tracing", error)
            return None

    def _taken(self, taken: EventTaken) -> None:
        event, message = taken.event, taken.message
        context = event_context(event, event.arrived_at)
        if not self._sampling.takes(event, context.trace_id):
            return
        span = Span(
            trace_id=context.trace_id,
            span_id=context.span_id,
            parent_span_id=context.parent_id,
            trace_state=event.trace.get("tracestate", ""),
            flags=_REMOTE_PARENT if context.parent_id else _LOCAL_PARENT,
            start_time_unix_nano=_nano(event.arrived_at),
            end_time_unix_nano=_nano(max(taken.ended_at, event.arrived_at)),
        )
        put(span, "messaging.destination.name", safe_text(destination(message)))
        if message.routing_key:
            put(span, "messaging.rabbitmq.destination.routing_key", safe_text(message.routing_key))
        put(span, "messaging.message.id", safe_text(event.id))
        put(span, "messaging.message.body.size", len(event.body))
        put(span, "leveret.tenant", safe_text(event.tenant))
        put(span, "leveret.event.type", safe_text(event.type))
        put(span, "leveret.event.result", taken.result.value)
        if taken.result in _FAILED:
            put(span, "error.type", taken.result.value)
            span.status.code = Status.STATUS_CODE_ERROR
        self._add(as_item(self._shared_of_queue(message) + span.SerializeToString()))

    def _shared(self, subscription: Subscription) -> bytes:
        """Return the bytes that all attempts of *subscription* share; a changed one has new bytes."""
        known = self._by_subscription.get(subscription.id)
        if known is not None and known.subscription is subscription:
            return known.part
        if len(self._by_subscription) >= SHARED_MAX:
            self._by_subscription.clear()
        url = parse_url(subscription.url)
        part = part_of_span(
            "POST",
            Span.SPAN_KIND_CLIENT,
            {
                "http.request.method": "POST",
                "url.scheme": url.scheme,
                "server.address": url.host,
                "server.port": url.port,
                "leveret.tenant": subscription.tenant,
                "leveret.subscription": subscription.shown,
                "leveret.subscription.id": subscription.id,
            },
        )
        self._by_subscription[subscription.id] = _Shared(subscription, part)
        return part

    def _shared_of_queue(self, message: RawMessage) -> bytes:
        """Return the bytes that all takes from one queue share."""
        known = self._by_queue.get(message.queue)
        if known is None:
            if len(self._by_queue) >= SHARED_MAX:
                self._by_queue.clear()
            known = self._by_queue[message.queue] = part_of_span(
                f"process {message.queue}",
                Span.SPAN_KIND_CONSUMER,
                {
                    "messaging.system": "rabbitmq",
                    "messaging.operation.type": "process",
                    "messaging.operation.name": "process",
                },
            )
        return known


def destination(message: RawMessage) -> str:
    """Return ``exchange:routing key:queue``, without the parts that are empty.

    Source: OpenTelemetry semantic conventions, "RabbitMQ" (``messaging.destination.name`` of a consumer).
    """
    return ":".join(filter(None, (message.exchange, message.routing_key, message.queue)))


def _begun(message: DeliveryMessage, event: SpanContext, attempt: Attempt) -> Span:
    """Return the span of an attempt with its ids and times; *event* names the span of its event."""
    began = _nano(attempt.at)
    span = Span(
        span_id=_random_id(8),
        flags=_LOCAL_PARENT,
        start_time_unix_nano=began,
        end_time_unix_nano=began + _nano(attempt.duration_s),
    )
    if message.targets:  # it came back from a queue, perhaps hours later
        span.trace_id = _random_id(16)
        link = span.links.add()
        link.trace_id, link.span_id, link.flags = event.trace_id, event.span_id, _LOCAL_PARENT
    else:
        span.trace_id, span.parent_span_id = event.trace_id, event.span_id
    return span


def _put_attempt(span: Span, message: DeliveryMessage, attempt: Attempt) -> None:
    put(span, "messaging.message.id", safe_text(message.event.id))
    put(span, "leveret.event.type", safe_text(message.event.type))
    put(span, "leveret.attempt", attempt.number)
    if attempt.number > 1:
        put(span, "http.request.resend_count", attempt.number - 1)
    if message.replays:
        put(span, "leveret.replay", message.replays)


def _put_result(span: Span, outcome: Outcome, verdict: str) -> None:
    put(span, "leveret.verdict", verdict)
    if outcome.status is not None:
        put(span, "http.response.status_code", outcome.status)
    if verdict == "delivered":
        return
    is_status = outcome.status is not None and outcome.kind.value.startswith("http_")
    put(span, "error.type", str(outcome.status) if is_status else outcome.kind.value)
    span.status.code = Status.STATUS_CODE_ERROR
    if outcome.kind in _OWN_WORDS:
        span.status.message = safe_text(outcome.detail)
    elif outcome.status is None:
        span.status.message = KINDS[outcome.kind].why


def _random_id(size: int) -> bytes:
    return random.getrandbits(8 * size).to_bytes(size)


def _nano(seconds: float) -> int:
    """Return seconds as nanoseconds; 0 for a negative number."""
    return max(int(seconds * 1e9), 0)
