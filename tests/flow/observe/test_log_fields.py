"""Lines about a delivery name its subscription and its trace; faults that repeat share lines."""

from __future__ import annotations

from math import inf

import pytest

from consumer.core.endpoint.admission import Hold
from consumer.core.errors import BrokerUnavailable, Refused, StoreUnavailable
from consumer.core.model import Defer, Delivered, ParkReason
from consumer.core.repeats import AGAIN_S
from consumer.core.subscription.subscription import Subscription
from tests.support.builders.endpoints import subscription
from tests.support.fakes import START
from tests.support.fakes_sender import Reply
from tests.support.flow.observer import ObserverDesk
from tests.support.worker import Worker, event, event_message

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACE = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01", "tracestate": "a=1"}


class Desk(ObserverDesk):
    """An observer with a clock of its own that knows one subscription."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.observe.now = lambda: self.at
        self.observe.names_from(self._find)

    @staticmethod
    def _find(subscription_id: str) -> Subscription | None:
        return subscription() if subscription_id == "sub_1" else None


def test_lines_about_a_delivery_name_its_subscription_and_its_trace() -> None:
    """Also where the step knows only the id."""
    desk, order = Desk(), event(trace=TRACE)

    desk.observe.started(order, subscription())
    desk.observe.deferred(order, subscription(), Hold(Defer(START), "paced"))
    desk.observe.cancelled(order, "sub_1", "HTTP 404")
    desk.observe.parked(
        ParkReason.EXPIRED, "too old", subscription_id="sub_1", tenant="acme", trace_id=order.trace_id
    )

    assert len(desk.log.lines) == 4
    for _, name, line in desk.log.lines:
        assert (line["tenant"], line["subscription"]) == ("acme", "acme/shop"), name
        assert (line["subscription_id"], line["trace_id"]) == ("sub_1", TRACE_ID), name


def test_lines_about_an_event_have_its_trace() -> None:
    """Without a delivery there is no subscription."""
    desk, order = Desk(), event(trace=TRACE)

    desk.observe.unmatched.event(order, 0.0)
    desk.observe.event_repeated(order)
    desk.observe.orphans.waits(order, "sub_gone", 0.0)

    assert [line["trace_id"] for _, _, line in desk.log.lines] == [TRACE_ID] * 3
    assert not any("subscription" in line for _, _, line in desk.log.lines)


def test_an_event_without_a_trace_has_no_such_field() -> None:
    """Most events have none."""
    desk = Desk()

    desk.attempted(Delivered())
    desk.observe.cancelled(event(), "sub_gone", "subscription deleted")

    assert not any("trace_id" in line for _, _, line in desk.log.lines)
    assert event().trace_id is None


async def test_a_parked_delivery_has_the_trace_of_its_event(worker: Worker) -> None:
    """The trace travels in the delivery message."""
    await worker.subscribe("shop", retry={"max_attempts": 1})
    worker.sender.on("https://shop.example/", Reply(status=500))
    await worker.handle(event_message(headers={"tenant": "acme", "traceparent": TRACE["traceparent"]}))

    [parked] = worker.log.events("delivery.parked")
    [attempted] = worker.log.events("delivery.attempted")
    for line in (parked, attempted):
        assert (line["subscription"], line["trace_id"]) == ("acme/shop", TRACE_ID)
    assert list(attempted)[:4] == ["tenant", "subscription", "event_id", "subscription_id"]


@pytest.mark.parametrize(
    ("error", "routing_keys", "lines"),
    [(BrokerUnavailable("gone"), ("1000.a", "2000.b"), 1), (Refused("full"), ("parked.x", "raw"), 2)],
)
def test_failed_publishes_share_a_line_a_minute(
    error: Exception, routing_keys: tuple[str, str], lines: int
) -> None:
    """Each is counted. A queue that refuses has lines of its own; a lost broker refuses for all queues."""
    desk = Desk()
    for _ in range(5):
        for routing_key in routing_keys:
            desk.observe.publish_failed(error, routing_key, 0.2)
    assert len(desk.log.events("publish.failed")) == lines

    desk.at = AGAIN_S
    desk.observe.publish_failed(error, routing_keys[0], 5.0)

    last = desk.log.events("publish.failed")[-1]
    assert (last["suppressed"], last["wait_s"]) == (10 // lines - 1, 5.0)


def test_a_store_that_stays_away_is_logged_once_a_minute() -> None:
    """Reading and writing have lines of their own; the end contains the faults that had no line."""
    desk, fault = Desk(), StoreUnavailable("a.db: is locked")
    for _ in range(3):
        desk.observe.store_failed("read", fault)
    desk.observe.store_failed("write", fault)
    desk.at = AGAIN_S
    desk.observe.store_failed("read", fault)
    desk.observe.store_failed("read", fault)

    assert [(line["step"], line.get("suppressed")) for line in desk.log.events("store.failed")] == [
        ("read", None),
        ("write", None),
        ("read", 2),
    ]
    desk.observe.store_worked("read")
    assert desk.log.events("store.recovered") == [{"step": "read", "suppressed": 1}]


def test_the_last_of_many_faults_is_counted_in_a_line() -> None:
    """A minute after it, or when the worker ends; a fault that had only its own line gets no further one."""
    desk, order, lost = Desk(), event(), BrokerUnavailable("gone")
    for _ in range(3):
        desk.observe.publish_failed(lost, "1000.a", 0.2)
        desk.observe.orphans.waits(order, "sub_gone", desk.at)
    desk.observe.faulted("control.lost", 2.0, detail="closed")
    desk.observe.settle_faults(desk.at)
    assert len(desk.log.lines) == 3

    desk.at = AGAIN_S
    desk.observe.settle_faults(desk.at)
    desk.observe.settle_faults(desk.at)

    settled = {name: line["suppressed"] for _, name, line in desk.log.lines[3:]}
    assert (settled, len(desk.log.lines)) == ({"subscription.unknown": 2, "publish.failed": 2}, 5)
    for _ in range(2):
        desk.observe.store_failed("write", StoreUnavailable("a.db: is locked"))
    desk.observe.settle_faults(inf)
    assert desk.log.events("store.failed")[1:] == [
        {"step": "write", "detail": "a.db: is locked", "suppressed": 1}
    ]


@pytest.mark.parametrize("parent", ["", "no trace", "00-short-1-1", "00-" + "\n" * 32 + "-1-1"])
def test_a_trace_that_is_not_valid_is_left_out(parent: str) -> None:
    """A delivery message may contain any text as its trace, whoever published it."""
    assert event(trace={"traceparent": parent}).trace_id is None


def test_a_fault_that_is_tried_again_shares_a_line_a_minute() -> None:
    """With the time of the next try; another window has lines of its own."""
    desk = Desk()
    for source in ("due", "due", "lane", "due"):
        desk.observe.faulted("window.failed", 0.4, source=source, detail="closed")
    desk.at = AGAIN_S
    desk.observe.faulted("window.failed", 5.0, source="due", detail="closed")

    assert desk.log.events("window.failed") == [
        {"source": "due", "detail": "closed", "next_try_s": 0.4},
        {"source": "lane", "detail": "closed", "next_try_s": 0.4},
        {"source": "due", "detail": "closed", "next_try_s": 5.0, "suppressed": 2},
    ]
