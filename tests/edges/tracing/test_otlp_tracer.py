"""The content of a span: named as the semantic conventions ask, bounded, and without secrets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import Attempt, Delivered, Outcome, OutcomeKind, Retry
from consumer.core.retry.outcomes import KINDS
from consumer.edges.tracing import otlp_tracer
from consumer.edges.tracing.otlp import TEXT_MAX
from consumer.tracing_ports import EventResult, EventTaken
from tests.support.builders.endpoints import subscription
from tests.support.fakes import START
from tests.support.flow.tracing import SpanDesk
from tests.support.servers.otlp_collector import attributes
from tests.support.worker import NAMES, event, event_message

TRACED = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1,b=2"}
SECRET_URL = "https://user-part.hooks.example:8443/services/T0KEN/path?key=K3Y"
ANY_TEXT = st.text(max_size=400)


def outcome(kind: OutcomeKind = OutcomeKind.OK, status: int | None = 200, detail: str = "") -> Outcome:
    """The result of an attempt of a quarter second."""
    return Outcome(kind, 0.25, status, detail=detail, body=b"a secret answer")


def test_the_span_of_an_event_is_named_as_the_conventions_ask() -> None:
    """Source: OpenTelemetry semantic conventions, "Messaging spans" and "RabbitMQ"."""
    desk = SpanDesk()
    taken = EventTaken(event(trace=TRACED), event_message(), EventResult.MATCHED, START + 1.5)
    desk.tracer.taken(taken)

    [span] = desk.spans()
    assert (span.name, span.kind) == (f"process {NAMES.lane(0)}", Span.SPAN_KIND_CONSUMER)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (
        int(START * 1e9),
        int((START + 1.5) * 1e9),
    )
    assert (span.trace_state, span.flags) == ("a=1,b=2", 0x301)
    assert attributes(span.attributes) == {
        "messaging.system": "rabbitmq",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": f"{NAMES.events}:order.created:{NAMES.lane(0)}",
        "messaging.rabbitmq.destination.routing_key": "order.created",
        "messaging.message.id": "ord-1",
        "messaging.message.body.size": 7,
        "leveret.tenant": "acme",
        "leveret.event.type": "order.created",
        "leveret.event.result": "matched",
    }


def test_the_span_of_an_attempt_is_named_as_the_conventions_ask() -> None:
    """Source: OpenTelemetry semantic conventions, "HTTP spans". Path and query may be secret."""
    desk, shop = SpanDesk(), replace(subscription(), url=SECRET_URL, headers=(("x-key", "H3ADER"),))
    message = DeliveryMessage(event=event(trace=TRACED), targets=())
    attempt = Attempt(1, START, OutcomeKind.OK, 200, 0.25)

    trace_id = desk.tracer.attempted(message, shop, attempt, outcome(), Delivered())

    [span] = desk.spans()
    assert trace_id == span.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert (span.name, span.kind, span.flags) == ("POST", Span.SPAN_KIND_CLIENT, 0x101)
    assert span.end_time_unix_nano - span.start_time_unix_nano == 250_000_000
    assert attributes(span.attributes) == {
        "http.request.method": "POST",
        "url.scheme": "https",
        "server.address": "user-part.hooks.example",
        "server.port": 8443,
        "http.response.status_code": 200,
        "messaging.message.id": "ord-1",
        "leveret.tenant": "acme",
        "leveret.subscription": "acme/shop",
        "leveret.subscription.id": "sub_1",
        "leveret.event.type": "order.created",
        "leveret.attempt": 1,
        "leveret.verdict": "delivered",
    }
    for secret in ("T0KEN", "K3Y", "services", "H3ADER", "secret answer"):
        assert secret.encode() not in desk.items[0]


@pytest.mark.parametrize(
    ("failed", "message"),
    [
        (
            outcome(OutcomeKind.PROTOCOL, None, "not a status line of HTTP/1: S3CRET"),
            "the answer was not HTTP",
        ),
        (outcome(OutcomeKind.PROXY, None, "the proxy answers: S3CRET"), KINDS[OutcomeKind.PROXY].why),
        (outcome(OutcomeKind.REFUSED, None, "the proxy answers: S3CRET"), "the connection was refused"),
        (outcome(OutcomeKind.HTTP_5XX, 503, "S3CRET"), ""),
        (outcome(OutcomeKind.PROTOCOL, 999, "S3CRET"), ""),
        (outcome(OutcomeKind.TLS, None, "certificate has expired"), "certificate has expired"),
    ],
)
def test_a_failure_quotes_no_answer(failed: Outcome, message: str) -> None:
    """Neither of an endpoint nor of a proxy: a fixed text is in its place."""
    desk = SpanDesk()
    attempt = Attempt(1, START, failed.kind, failed.status, 0.25)
    desk.tracer.attempted(
        DeliveryMessage(event=event(), targets=()), subscription(), attempt, failed, Retry(1.0)
    )

    [span] = desk.spans()
    assert span.status.message == message
    assert b"S3CRET" not in desk.items[0]


@settings(max_examples=100)
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, st.floats(-1e10, 1e10))
def test_any_text_makes_a_valid_bounded_span(one: str, two: str, three: str, at: float) -> None:
    """Lone surrogates, controls, long texts and odd times too; no call raises."""
    desk = SpanDesk()
    odd = event(id=one, tenant=two, type=three, arrived_at=at)
    raw = event_message(exchange=one, routing_key=two, queue=three)
    message = DeliveryMessage(event=odd, targets=("sub_1",))
    failed = outcome(OutcomeKind.TLS, None, detail=three)
    attempt = Attempt(2, at, OutcomeKind.TLS, None, 0.25)
    desk.tracer.taken(EventTaken(odd, raw, EventResult.MATCHED, at - 5))
    desk.tracer.attempted(message, replace(subscription(), tenant=one, name=two), attempt, failed, Retry(1.0))

    spans = desk.spans()
    assert desk.bugs() == []
    assert len(spans) == 2
    for span in spans:
        texts = [each for each in attributes(span.attributes).values() if isinstance(each, str)]
        assert all(len(text) <= TEXT_MAX and text.isprintable() for text in (*texts, span.name))
        assert len(span.status.message) <= TEXT_MAX
        assert span.end_time_unix_nano >= span.start_time_unix_nano


def test_a_changed_subscription_has_its_new_host_at_once() -> None:
    """The bytes that its attempts share are kept, within a bound."""
    desk = SpanDesk()
    message = DeliveryMessage(event=event(), targets=())
    attempt = Attempt(1, START, OutcomeKind.OK, 200, 0.25)
    before = subscription()
    for shop in (before, before, replace(before, url="https://new.example/")):
        desk.tracer.attempted(message, shop, attempt, outcome(), Delivered())

    hosts = [attributes(span.attributes)["server.address"] for span in desk.spans()]
    assert hosts == ["shop.example", "shop.example", "new.example"]
    for number in range(otlp_tracer.SHARED_MAX + 10):
        desk.items.clear()
        desk.tracer.attempted(message, replace(before, id=f"sub_{number}"), attempt, outcome(), Delivered())
    assert len(desk.tracer._by_subscription) <= otlp_tracer.SHARED_MAX
