"""The rows of the history that the flow notes: one for each attempt, and one for each other end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.core.history.records import DETAIL_MAX, HistoryRow, Keep, Step
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import delivery_id
from consumer.core.model import Attempt, Delivered, Outcome, OutcomeKind, Retry, Verdict
from consumer.flow.base.history_notes import LONG_WAIT_S, HistoryNotes
from consumer.flow.observe.delivery import Attempted
from consumer.ports import Source
from tests.support.builders.endpoints import subscription
from tests.support.fakes import START
from tests.support.fakes_sender import Reply
from tests.support.fakes_store import MemoryHistory
from tests.support.worker import Worker, delivery_message, event, event_message

SHOP = "https://shop.example/"
FAILED = Retry(1.5)


def steps(worker: Worker) -> list[tuple[str, str]]:
    """Return step and reason of each row."""
    return [(row.step, row.reason) for row in worker.history.rows]


def noted(
    answer: bytes = b"ok",
    *,
    keep: Keep = Keep.ALL,
    kept: int = 512,
    number: int = 1,
    verdict: Verdict = FAILED,
) -> list[HistoryRow]:
    """Return the rows of one attempt that failed, or of one with another verdict."""
    history = MemoryHistory()
    notes = HistoryNotes(history, lambda: START, keep=keep, answer_bytes=kept)
    outcome = Outcome(
        OutcomeKind.HTTP_5XX, 0.25, 503, body=answer, content_type="text/plain", detail="x" * 1_000
    )
    attempt = Attempt(number, START, outcome.kind, 503, 0.25)
    notes.attempted(Attempted(event(), subscription(), attempt, outcome, verdict))
    return history.rows


async def test_a_delivered_event_has_the_row_of_its_arrival_and_one_of_its_attempt(worker: Worker) -> None:
    """S1-15: the row of the attempt is also the end of the delivery; the answer is kept."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=202, body=b'{"id":7}'))

    await worker.handle(event_message(message_id="ord-1"))

    received, attempt = worker.history.rows
    assert received == HistoryRow(START, "received", "ord-1", "acme", "order.created", number=1)
    assert attempt._replace(latency_ms=0.0) == HistoryRow(
        at=START,
        step="attempt",
        event_id="ord-1",
        tenant="acme",
        type="order.created",
        subscription_id=shop.id,
        number=1,
        kind="ok",
        status=202,
        latency_ms=0.0,
        reason="delivered",
        answer=b'{"id":7}',
    )


async def test_an_event_that_nobody_wants_is_unmatched(worker: Worker) -> None:
    """It has one row, and no attempt."""
    await worker.handle(event_message(message_id="ord-1"))

    assert steps(worker) == [("unmatched", "")]


async def test_a_failure_names_its_verdict_and_its_wait(worker: Worker) -> None:
    """The row contains the delay that was chosen."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503, body=b"busy"))

    await worker.handle(event_message(message_id="ord-1"))

    row = worker.history.rows[-1]
    [waiting] = worker.waiting()
    assert (row.step, row.reason, row.kind, row.status, row.answer) == (
        *("attempt", "retry", "http_5xx", 503),
        b"busy",
    )
    assert row.wait_ms == pytest.approx(waiting.wait_s * 1000)
    assert row.delivery_id == delivery_id("ord-1", shop.id)


async def test_a_parked_delivery_ends_with_a_row_of_its_own(worker: Worker) -> None:
    """S1-2: after the attempt that gave up."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=410))

    await worker.handle(event_message(message_id="ord-1"))

    assert steps(worker) == [("received", ""), ("attempt", "park"), ("parked", "disabled")]
    assert worker.history.rows[-1].number == 1


async def test_a_message_that_never_became_an_event_is_noted_as_parked(worker: Worker) -> None:
    """Its producer's words are escaped."""
    await worker.handle(event_message(message_id="ord-1", body=b"{"))

    [row] = worker.history.rows
    assert (row.step, row.reason, row.event_id, row.subscription_id) == ("parked", "malformed", "ord-1", "")


async def test_a_rule_that_drops_a_delivery_cancels_it(worker: Worker) -> None:
    """The end has a row beside the attempt."""
    await worker.subscribe("shop", on_status={"404": "drop"})
    worker.sender.on(SHOP, Reply(status=404))

    await worker.handle(event_message(message_id="ord-1"))

    assert steps(worker) == [("received", ""), ("attempt", "drop"), ("cancelled", "")]


async def test_a_deleted_subscription_cancels_its_deliveries(worker: Worker) -> None:
    """Fault 31: the row contains the name of the person that deleted it."""
    shop = await worker.subscribe("shop")
    await worker.unsubscribe("shop")
    message = DeliveryMessage(event=event(), targets=(shop.id,), not_before=START)

    await worker.handle(delivery_message(message), Source.DUE)

    [row] = worker.history.rows
    assert (row.step, row.subscription_id) == ("cancelled", shop.id)
    assert "subscription deleted" in row.detail


async def test_a_replay_is_noted_before_its_attempt(worker: Worker) -> None:
    """S1-16: so the timeline shows why there is a further attempt."""
    shop = await worker.subscribe("shop")
    message = DeliveryMessage(event=event(), targets=(shop.id,), not_before=START)

    await worker.handle(delivery_message(message), Source.REPLAY)

    assert steps(worker) == [("replayed", ""), ("attempt", "delivered")]


async def test_a_delivery_that_is_held_again_and_again_has_few_rows(worker: Worker) -> None:
    """A row for the first deferral since the last attempt, and for each long wait."""
    shop = await worker.subscribe("shop")
    message = DeliveryMessage(event=event(), targets=(shop.id,), not_before=START)
    held = replace(message, held=True)

    for each, wait_s in ((message, 5.0), (held, 5.0), (held, LONG_WAIT_S)):
        worker.context.notes.deferred(each, shop, "breaker", wait_s)

    assert [(row.step, row.reason, row.wait_ms) for row in worker.history.rows] == [
        ("deferred", "breaker", 5_000),
        ("deferred", "breaker", 600_000),
    ]


async def test_an_open_breaker_is_named_as_the_reason_of_a_wait(worker: Worker) -> None:
    """A delivery message was written without a request."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(fault=OutcomeKind.REFUSED))

    for number in range(8):
        await worker.handle(event_message(message_id=f"ord-{number}"))

    deferred = [row for row in worker.history.rows if row.step == Step.DEFERRED]
    assert deferred
    assert {row.reason for row in deferred} <= {"breaker", "slow"}


async def test_failures_alone_are_kept_where_the_settings_ask_for_it() -> None:
    """``keep = failures``: neither arrivals nor first attempts that delivered."""
    worker = Worker(keep=Keep.FAILURES)
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(), Reply(status=503), Reply())
    tried = (Attempt(1, START, OutcomeKind.RESET, None, 0.1),)
    message = DeliveryMessage(
        event=event(), targets=(shop.id,), attempts=tried, attempts_made=1, not_before=START
    )

    await worker.handle(event_message(message_id="ord-1"))
    await worker.handle(event_message(message_id="ord-2"))
    await worker.handle(delivery_message(message), Source.DUE)

    assert steps(worker) == [("attempt", "retry"), ("attempt", "delivered")]


async def test_nothing_is_kept_where_the_history_is_off() -> None:
    """``keep = off``: no row at all, even for a parked delivery."""
    worker = Worker(keep=Keep.OFF)
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=410))

    await worker.handle(event_message(message_id="ord-1"))
    await worker.handle(event_message(message_id="ord-2"))

    assert worker.history.rows == []
    assert len(worker.parked()) == 1


def test_an_answer_is_kept_up_to_the_bound() -> None:
    """So many bytes, with the content type; the detail is bounded too."""
    [row] = noted(b"x" * 600)

    assert (row.answer, row.answer_type, row.detail) == (b"x" * 512, "text/plain", "x" * DETAIL_MAX)


@pytest.mark.parametrize("verdict", [FAILED, Delivered()])
def test_answers_are_not_kept_where_the_settings_say_so(verdict: Verdict) -> None:
    """``answers = false``: neither bytes nor content type."""
    [row] = noted(b"secret", kept=0, verdict=verdict)

    assert (row.answer, row.answer_type) == (None, "")


@pytest.mark.parametrize("verdict", [FAILED, Delivered()])
def test_the_start_of_an_answer_is_kept_with_its_type(verdict: Verdict) -> None:
    """Whatever the verdict."""
    [row] = noted(b"x" * 600, kept=5, verdict=verdict)

    assert (row.answer, row.answer_type) == (b"x" * 5, "text/plain")
