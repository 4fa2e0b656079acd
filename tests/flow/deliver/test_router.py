"""One event to its verdicts: its requests, its publishes, and the ack at the end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from consumer.core.event.decode import DecodeRules
from consumer.core.event.sources import parse_rule
from consumer.core.message.delivery import headers_of, wrap_raw
from consumer.core.model import ParkReason
from consumer.ports import Source
from tests.support.fakes import START
from tests.support.fakes_sender import Reply
from tests.support.worker import (
    DUE,
    NAMES,
    SHOP,
    Worker,
    delivery_message,
    due,
    event_message,
)

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


# events


async def test_an_event_is_sent_once_and_acked_after_the_answer(worker: Worker) -> None:
    """One hop when all is well: no publish, one request, then the ack (settle rule)."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message())

    assert worker.journal.words() == ["sending", "answered", "ack"]
    assert ticket.settles == ["ack"]


async def test_the_request_is_a_standard_webhook(worker: Worker) -> None:
    """Id of the event, whole seconds of the attempt, the same body, its own signature (SW-02..05)."""
    shop = await worker.subscribe("shop", secrets=[SECRET], headers={"x-api-version": "2"})
    worker.sender.on(SHOP, Reply(status=503), Reply())
    await worker.handle(event_message())
    await worker.clock.advance(7)

    await worker.handle(delivery_message(due(shop.id, attempts_made=1)), Source.DUE)

    body = b'{"type":"order.created","timestamp":"2023-11-14T22:13:15Z","data":{"n":1}}'
    assert [request.body for request in worker.sender.sent] == [body, body]
    for request, at in zip(worker.sender.sent, (START, START + 7), strict=True):
        headers = dict(request.headers)
        assert headers["webhook-id"] == "ord-1"
        assert headers["webhook-timestamp"] == str(int(at))
        reference = Webhook(SECRET).sign("ord-1", datetime.fromtimestamp(int(at), UTC), body.decode())
        assert headers["webhook-signature"] == reference
        assert headers["x-api-version"] == "2"
        assert request.timeout_s == shop.timeout_s


@pytest.mark.parametrize("send_trace", [False, True])
async def test_trace_headers_are_sent_on_request_only(worker: Worker, send_trace: bool) -> None:
    """A subscription gets traceparent and tracestate only with send_trace."""
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1"}
    await worker.subscribe("shop", send_trace=send_trace)

    await worker.handle(event_message(headers={"tenant": "acme", **trace}))

    [request] = worker.sender.sent
    assert {name: text for name, text in request.headers if name in trace} == (trace if send_trace else {})


async def test_a_failure_is_stored_with_its_attempt_before_the_ack(worker: Worker) -> None:
    """One wait message with attempt 1, on the rung of the first wait; ack last (S0-1, fault 40)."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))

    ticket = await worker.handle(event_message())

    assert worker.journal.words() == ["sending", "answered", "publishing", "confirmed", "ack"]
    [published] = worker.publisher.confirmed
    [waiting] = worker.waiting()
    assert (published.publication.exchange, published.key) == (NAMES.wait, f"1000.{DUE}")
    assert waiting.targets == (shop.id,)
    assert (waiting.attempts_made, waiting.attempts[0].status) == (1, 503)
    assert (waiting.not_before, waiting.wait_s) == (START + 1, 1.0)
    assert ticket.settles == ["ack"]


async def test_nothing_of_the_producer_leaves_with_a_delivery_message(worker: Worker) -> None:
    """Forged ``leveret-*`` headers are not read and no header but ours is published (fault 18)."""
    await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    forged = {"leveret-made": 10, "leveret-not-before": 0, "leveret-targets": "sub_other", "CC": ["x"]}

    await worker.handle(event_message(headers={"tenant": "acme", "x-death": [{"queue": "a"}]} | forged))

    [published] = worker.publisher.confirmed
    assert published.headers["leveret-made"] == 1
    assert all(name.startswith("leveret-") for name in published.headers)
    assert published.publication.message_id is None
    assert worker.sent("shop") == 1


async def test_an_event_that_nobody_wants_is_acked_and_counted(worker: Worker) -> None:
    """No subscription: acked, counted as unmatched, not parked (fault 7)."""
    ticket = await worker.handle(event_message())

    assert worker.journal.words() == ["ack"]
    assert ticket.settles == ["ack"]
    assert worker.count("events_total", outcome="unmatched") == 1


async def test_no_event_reaches_another_tenant(worker: Worker) -> None:
    """The subscription of acme sees nothing of other tenants, for all ids (fault 16)."""
    await worker.subscribe("shop")

    for tenant in ("beta", "ac.e", "acme2", "ACME"):
        await worker.handle(event_message(tenant=tenant))

    assert worker.sender.sent == []


async def test_a_bad_event_is_parked_with_its_bytes_before_the_ack(worker: Worker) -> None:
    """Malformed JSON: parked raw, with its reason, and the next message flows (faults 1, 2)."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message(b'{"n":'))
    await worker.handle(event_message())

    [entry] = worker.parked()
    assert (entry.reason, entry.body) == (ParkReason.MALFORMED, b'{"n":')
    assert worker.journal.words()[:3] == ["publishing", "confirmed", "ack"]
    assert ticket.settles == ["ack"]
    assert worker.sent("shop") == 1


async def test_an_event_without_an_id_takes_the_inbox_hop(worker: Worker) -> None:
    """Published once more with a UUIDv7, confirmed, then acked; nothing is sent yet."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message(message_id=None))

    [published] = worker.publisher.confirmed
    assert published.publication.exchange == NAMES.events
    assert published.message_id.count("-") == 4
    assert published.headers["tenant"] == "acme"
    assert worker.journal.words() == ["publishing", "confirmed", "ack"]
    assert ticket.settles == ["ack"]


async def test_an_event_whose_expiration_passed_is_not_sent() -> None:
    """It expired in a lane: parked as expired for each target, no request (fault 19)."""
    worker = Worker()
    await worker.subscribe("shop")
    await worker.subscribe("crm")
    past_ms = int(START * 1000) - 1

    ticket = await worker.handle(event_message(headers={"tenant": "acme", "expires_at_ms": past_ms}))

    assert worker.sender.sent == []
    assert [entry.reason for entry in worker.parked()] == [ParkReason.EXPIRED] * 2
    assert ticket.settles == ["ack"]


# suspect


@pytest.mark.parametrize(("delivery_count", "moved"), [(4, False), (5, True), (900, True)])
async def test_a_message_that_came_back_often_is_moved_unread(
    worker: Worker, delivery_count: int, moved: bool
) -> None:
    """From a delivery count of 5 on it goes to suspect, confirmed, then acked (fault 70)."""
    await worker.subscribe("shop")

    ticket = await worker.handle(event_message(delivery_count=delivery_count))

    assert [p.key for p in worker.publisher.confirmed] == (["suspect"] if moved else [])
    assert worker.sent("shop") == (0 if moved else 1)
    assert ticket.settles == ["ack"]


async def test_a_suspect_event_is_sent_as_it_would_have_been(worker: Worker) -> None:
    """Innocents are only slower: the moved event is unwrapped and delivered with its own id (fault 70)."""
    await worker.subscribe("shop")
    await worker.handle(event_message(delivery_count=5))
    [moved] = worker.publisher.confirmed

    ticket = await worker.handle(moved.raw(queue=NAMES.suspect, delivery_count=1), Source.SUSPECT)

    assert dict(worker.sender.sent[0].headers)["webhook-id"] == "ord-1"
    assert ticket.settles == ["ack"]


async def test_a_suspect_delivery_message_keeps_its_attempts(worker: Worker) -> None:
    """Our own messages move with our own headers and go on where they were."""
    shop = await worker.subscribe("shop")
    worker.sender.on(SHOP, Reply(status=503))
    owed = due(shop.id, attempts_made=2)
    await worker.handle(delivery_message(owed, delivery_count=5), Source.DUE)
    [moved] = worker.publisher.confirmed
    assert moved.headers == headers_of(owed)

    await worker.handle(moved.raw(queue=NAMES.suspect), Source.SUSPECT)

    assert [m.attempts_made for m in worker.waiting()] == [3]


async def test_a_bad_event_is_parked_unwrapped_from_suspect(worker: Worker) -> None:
    """An operator sees the message of the producer, not our wrapper."""
    raw = event_message(b"{")
    wrapped = event_message(b"{", headers=wrap_raw(raw), routing_key="suspect", queue=NAMES.suspect)

    ticket = await worker.handle(wrapped, Source.SUSPECT)

    [entry] = worker.parked()
    assert entry.raw is not None
    assert (entry.raw.routing_key, entry.raw.headers) == ("order.created", {"tenant": "acme"})
    assert ticket.settles == ["ack"]


async def test_a_suspect_of_an_inbox_keeps_its_tenant() -> None:
    """By its source's rule, never the default tenant's (fault 16)."""
    rule = parse_rule({"tenant": "body:/company"})
    inbox = NAMES.inbox("erp")
    worker = Worker(decode=DecodeRules(inboxes={inbox: rule}))
    raw = event_message(b'{"company":"beta"}', headers={}, queue=inbox, delivery_count=5)
    await worker.handle(raw, Source.INBOX)
    [moved] = worker.publisher.confirmed

    await worker.handle(moved.raw(queue=NAMES.suspect), Source.SUSPECT)

    assert worker.publisher.confirmed[1].headers["tenant"] == "beta"
