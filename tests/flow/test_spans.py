"""The spans of a worker: one for each take of an event, one for each attempt, joined by parents and links."""

from __future__ import annotations

import asyncio

from consumer.core.errors import FrameTooLarge
from consumer.core.message.replay import replayed_delivery
from consumer.core.model import OutcomeKind
from consumer.core.spans.context import Sampling
from consumer.ports import Source
from tests.support.fakes_sender import Reply
from tests.support.flow.tracing import SpanDesk
from tests.support.servers.otlp_collector import attributes
from tests.support.worker import LoopBack, Worker, delivery_message, event_message

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACED = {"tenant": "acme", "traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01", "baggage": "user=ann"}
SHOP = "https://shop.example/"
TWO = {"max_attempts": 2, "base_s": 3_600, "max_s": 3_600, "jitter": 0}


async def test_an_attempt_from_the_event_itself_is_a_child_of_the_events_span() -> None:
    """All in the producer's trace."""
    desk = SpanDesk()
    worker = Worker(tracer=desk.tracer)
    await worker.subscribe_all("shop", "bank")
    await worker.handle(event_message(headers=TRACED))

    *posts, taken = desk.spans()
    assert (taken.trace_id.hex(), taken.parent_span_id.hex()) == (TRACE_ID, PARENT_ID)
    assert len(posts) == 2
    for post in posts:
        assert (post.trace_id, post.parent_span_id, list(post.links)) == (taken.trace_id, taken.span_id, [])
        assert taken.start_time_unix_nano <= post.start_time_unix_nano
        assert post.end_time_unix_nano <= taken.end_time_unix_nano
    assert len({span.span_id for span in (*posts, taken)}) == 3


async def test_a_retry_hours_later_begins_a_trace_with_a_link() -> None:
    """The link leads to the span of the event, in the producer's trace."""
    desk = SpanDesk()
    worker = Worker(tracer=desk.tracer)
    loop_back = LoopBack(worker)
    await worker.subscribe("shop", retry=TWO)
    worker.sender.on(SHOP, Reply(status=503), Reply(status=200))
    await worker.handle(event_message(headers=TRACED))
    await loop_back.run_dry()

    first, taken, second = desk.spans()
    assert (first.trace_id, first.parent_span_id) == (taken.trace_id, taken.span_id)
    [link] = second.links
    assert (link.trace_id, link.span_id) == (taken.trace_id, taken.span_id)
    assert second.trace_id != taken.trace_id
    assert second.parent_span_id == b""
    assert second.start_time_unix_nano - first.end_time_unix_nano >= 3_500 * 10**9
    assert attributes(second.attributes)["http.request.resend_count"] == 1
    assert worker.publisher.confirmed
    assert "user=ann" not in repr((worker.publisher.confirmed, worker.history.rows, desk.items))


async def test_a_replay_links_to_the_first_take_of_its_event() -> None:
    """The parked entry keeps the arrival, and so the ids."""
    desk = SpanDesk()
    worker = Worker(tracer=desk.tracer)
    await worker.subscribe("shop", retry={"max_attempts": 1})
    worker.sender.on(SHOP, Reply(status=503), Reply(status=200))
    await worker.handle(event_message(headers=TRACED))
    [entry] = worker.parked()

    again = replayed_delivery(entry, worker.clock.now() + 86_400)
    assert again is not None
    await worker.handle(delivery_message(again), Source.REPLAY)

    _, taken, second = desk.spans()
    [link] = second.links
    assert (link.trace_id, link.span_id) == (taken.trace_id, taken.span_id)
    assert attributes(second.attributes)["leveret.replay"] == 1


async def test_each_result_of_an_event_has_a_span() -> None:
    """A repeated event, an event that nobody wants, and one that the broker gets back."""
    desk = SpanDesk()
    worker = Worker(tracer=desk.tracer, dedupe_window_s=60.0)
    await worker.handle(event_message())
    await worker.subscribe("shop", retry=TWO)
    await worker.handle(event_message())
    await worker.handle(event_message())
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.connected = False
    ticket = worker.offer(event_message(message_id="ord-2"))
    ticket.dead = True
    await worker.intake.idle()

    results = [attributes(span.attributes)["leveret.event.result"] for span in desk.spans("process")]
    assert results == ["unmatched", "matched", "duplicate", "given_back"]
    assert [span.status.code for span in desk.spans("process")] == [0, 0, 0, 2]


async def test_an_event_that_cannot_be_split_is_parked_in_its_span() -> None:
    """Its headers fit into no frame."""
    desk = SpanDesk()
    worker = Worker(tracer=desk.tracer, max_targets_per_message=1)
    await worker.subscribe_all("shop", "bank")
    worker.publisher.faults = [FrameTooLarge(100_000, 4_096)] * 2
    await worker.handle(event_message())

    [span] = desk.spans("process")
    assert (attributes(span.attributes)["leveret.event.result"], span.status.code) == ("parked", 2)
    assert len(worker.publisher.to("parked.")) == 1


async def test_an_event_whose_ack_gets_lost_is_given_back_in_its_span() -> None:
    """Its channel closed during the request, which succeeded."""
    desk = SpanDesk()
    worker = Worker(tracer=desk.tracer)
    await worker.subscribe("shop")
    worker.sender.latency_s[SHOP] = 0.5
    ticket = worker.offer(event_message())
    await worker.clock.advance(0.1)
    ticket.dead = True
    await worker.intake.idle()

    [span] = desk.spans("process")
    assert attributes(span.attributes)["leveret.event.result"] == "given_back"


async def test_a_repeated_event_that_waits_for_the_first_one_has_one_span() -> None:
    """Each look of the wait has none."""
    desk = SpanDesk()
    worker = Worker(tracer=desk.tracer, dedupe_window_s=60.0)
    gate = asyncio.Event()
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(gate=gate))
    worker.offer(event_message())
    worker.offer(event_message())
    asyncio.get_running_loop().call_later(1.0, gate.set)
    await worker.intake.idle()
    await LoopBack(worker).run_dry()

    results = [attributes(span.attributes)["leveret.event.result"] for span in desk.spans("process")]
    assert results == ["matched", "duplicate"]


async def test_a_failed_attempt_says_why() -> None:
    """With the status or the kind of error, as the semantic conventions write it."""
    desk = SpanDesk()
    worker = Worker(tracer=desk.tracer)
    await worker.subscribe("shop", retry=TWO)
    worker.sender.on(SHOP, Reply(status=503), Reply(fault=OutcomeKind.TIMEOUT_TOTAL))
    await worker.handle(event_message())
    await LoopBack(worker).run_dry()
    await worker.handle(event_message(message_id="ord-2"))

    posts = [(span.status.code, attributes(span.attributes)) for span in desk.spans("POST")]
    assert [(code, each["error.type"], each["leveret.verdict"]) for code, each in posts] == [
        (2, "503", "retry"),
        (2, "timeout_total", "retry"),
    ]
    assert [each.get("http.response.status_code") for _, each in posts] == [503, None]


async def test_events_that_are_not_sampled_have_no_span_at_all() -> None:
    """Neither have their retries; the deliveries are the same."""
    desk = SpanDesk(Sampling(ratio=1.0))
    worker = Worker(tracer=desk.tracer)
    await worker.subscribe("shop", retry=TWO)
    worker.sender.on(SHOP, Reply(status=503), Reply(status=200))
    unsampled = TRACED | {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-00"}
    await worker.handle(event_message(headers=unsampled))
    await LoopBack(worker).run_dry()

    assert desk.items == []
    assert worker.sent("shop") == 1


async def test_a_bug_in_the_tracing_stops_no_delivery() -> None:
    """It is counted as a failed task, as any bug is."""

    def broken(_span: bytes) -> None:
        raise RuntimeError("a bug")

    desk = SpanDesk(add=broken)
    worker = Worker(tracer=desk.tracer)
    await worker.subscribe("shop")
    ticket = await worker.handle(event_message())

    assert ticket.settles == ["ack"]
    assert worker.sent("shop") == 1
    assert [bug["task"] for bug in desk.bugs()] == ["tracing", "tracing"]


async def test_attempts_that_are_recorded_are_exemplars(worker: Worker) -> None:
    """Of both latency histograms; without tracing there are none."""
    desk = SpanDesk()
    traced = Worker(tracer=desk.tracer)
    for each in (traced, worker):
        await each.subscribe("shop")
        await each.handle(event_message(headers=TRACED))

    for each, found in ((traced, {TRACE_ID}), (worker, set[str]())):
        for histogram in (each.series.attempt_duration.labels("delivered"), each.series.delivery):
            exemplars = [bucket[2] for bucket in histogram.buckets() if len(bucket) == 3]
            assert {exemplar.labels["trace_id"] for exemplar in exemplars} == found


async def test_endpoints_get_the_producers_trace_as_before(worker: Worker) -> None:
    """Only if their subscription asks for it, unchanged, and never any baggage."""
    desk = SpanDesk()
    traced = Worker(tracer=desk.tracer)
    for each in (traced, worker):
        await each.subscribe("shop", send_trace=True)
        await each.subscribe("bank")
        await each.handle(event_message(headers=TRACED))

    for each in (traced, worker):
        sent = {request.url: dict(request.headers) for request in each.sender.sent}
        assert sent[SHOP]["traceparent"] == TRACED["traceparent"]
        assert "traceparent" not in sent["https://bank.example/"]
        assert not any("baggage" in headers for headers in sent.values())
