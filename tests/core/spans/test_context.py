"""The ids of an event's span, and the choice of the events that are recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.message.delivery import DeliveryMessage, read_delivery
from consumer.core.spans.context import Sampling, event_context
from tests.support.fakes import START
from tests.support.worker import delivery_message, event

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEX = st.text("0123456789abcdef", min_size=32, max_size=32).filter(lambda text: text.strip("0"))


def traced(flags: str = "01", trace_id: str = TRACE_ID) -> dict[str, str]:
    """Return the trace of an event."""
    return {"traceparent": f"00-{trace_id}-{PARENT_ID}-{flags}"}


def test_a_span_belongs_to_the_trace_of_its_event() -> None:
    """The producer's span is its parent; without a trace it begins one."""
    child, root = event_context(event(trace=traced()), START), event_context(event(), START)

    assert (child.trace_id.hex(), child.parent_id.hex()) == (TRACE_ID, PARENT_ID)
    assert (len(root.trace_id), root.parent_id) == (16, b"")
    assert len(child.span_id) == len(root.span_id) == 8


@given(st.floats(0, 4e9), st.text(max_size=20), HEX)
def test_a_worker_that_has_only_the_delivery_message_finds_the_same_span(
    arrived_at: float, tenant: str, trace_id: str
) -> None:
    """Also hours later, after any number of hops."""
    order = event(arrived_at=arrived_at, tenant=tenant, trace=traced(trace_id=trace_id))
    message = DeliveryMessage(event=order, targets=("sub_1",))

    for _ in range(3):
        message = read_delivery(delivery_message(message))

    assert event_context(message.event, message.first_arrived_at) == event_context(order, arrived_at)


@pytest.mark.parametrize("more", [{"id": "ord-2"}, {"tenant": "other"}, {"type": "order.paid"}])
def test_two_events_have_two_spans(more: dict[str, str]) -> None:
    """And so have two takes of one event."""
    assert event_context(event(**more), START) != event_context(event(), START)
    assert event_context(event(), START + 0.001) != event_context(event(), START)


@pytest.mark.parametrize(("flags", "taken"), [("01", True), ("00", False), ("03", True), ("02", False)])
def test_the_producer_decides_for_its_traces(flags: str, taken: bool) -> None:
    """By the sampled flag, the lowest bit; unless the settings say that the ratio decides."""
    order = event(trace=traced(flags))
    trace_id = event_context(order, START).trace_id

    assert Sampling(ratio=0.0 if taken else 1.0).takes(order, trace_id) is taken
    assert Sampling(ratio=1.0, follows_parent=False).takes(order, trace_id)
    assert not Sampling(ratio=0.0, follows_parent=False).takes(order, trace_id)


def test_the_ratio_decides_for_events_without_a_trace() -> None:
    """About that share of them, each with the same answer on every worker."""
    sampling, plain = Sampling(ratio=0.25), event()
    contexts = [event_context(replace(plain, id=f"ord-{n}"), START) for n in range(4_000)]

    taken = [each for each in contexts if sampling.takes(plain, each.trace_id)]

    assert 900 < len(taken) < 1_100
    assert all(Sampling(ratio=0.5).takes(plain, each.trace_id) for each in taken)
    assert all(Sampling(ratio=1.0).takes(plain, each.trace_id) for each in contexts)
    assert not any(Sampling(ratio=0.0).takes(plain, each.trace_id) for each in contexts)
