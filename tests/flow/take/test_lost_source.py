"""A message whose channel closed comes again: its deliveries are stored once, by its present holder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from consumer.core.books import Books
from consumer.core.errors import BrokerUnavailable
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.model import RawMessage
from consumer.flow.base.open_targets import OpenTargets
from consumer.flow.base.outbox import together
from consumer.flow.take.reroute import Reroute
from consumer.ports import Source
from tests.support.fakes import START
from tests.support.fakes_routes import FakeRoutes
from tests.support.fakes_sender import Reply
from tests.support.worker import NAMES, ONE, Worker, delivery_message, event, event_message

CONSUMER_TIMEOUT_S = 1800.0  #: after which the broker takes unacked messages back
PAUSE_S = 8.0  #: longer than any pause between two tries to publish
DEAD = "https://dead.example/"
ANY_RUNG = set("123456789")  #: possible beginnings of the routing key of a rung


def lose(worker: Worker) -> None:
    """Close the channel by which everything came so far."""
    for ticket in worker.tickets:
        ticket.dead = True
    worker.intake.forget_dead()


async def test_a_rung_that_is_gone_for_hours_leaves_one_job_and_one_chain(worker: Worker) -> None:
    """Faults 61, 64: each time the broker takes the source back its job ends; the one that has it when
    the rung is there again begins the only chain.
    """
    await worker.subscribe("shop")
    await worker.subscribe("dead", breaker={"failures": 0})
    worker.sender.on(DEAD, Reply(status=503))
    worker.publisher.unbound = ANY_RUNG
    for _ in range(3):
        worker.offer(event_message())
        await worker.clock.advance(CONSUMER_TIMEOUT_S)
        assert worker.intake.running() == 1
        lose(worker)
        await worker.clock.advance(PAUSE_S)
        assert worker.intake.running() == 0

    worker.publisher.unbound = set()
    last = await worker.handle(event_message())
    await worker.clock.advance(CONSUMER_TIMEOUT_S)

    assert [message.attempts_made for message in worker.waiting()] == [1]
    assert (worker.sent("shop"), worker.sent("dead")) == (4, 4)
    assert last.settles == ["ack"]
    assert worker.bugs() == []


@pytest.mark.parametrize(("status", "exchange"), [(503, NAMES.wait), (400, NAMES.dlx)])
async def test_a_channel_lost_during_the_request_doubles_nothing(
    worker: Worker, status: int, exchange: str
) -> None:
    """Faults 57, 59: its failure is not stored, since the event comes again: one chain, one parked entry."""
    await worker.subscribe("dead", breaker={"failures": 0})
    worker.sender.on(DEAD, Reply(status=status))
    worker.sender.latency_s[DEAD] = 0.8
    lost = worker.offer(event_message())
    await worker.clock.advance(0.4)
    lose(worker)
    await worker.intake.idle()
    assert worker.publisher.confirmed == []
    assert "ack" not in lost.settles

    again = await worker.handle(event_message(redelivered=True))

    assert [p.publication.exchange for p in worker.publisher.confirmed] == [exchange]
    assert again.settles == ["ack"]
    assert worker.bugs() == []


async def test_a_delivered_event_needs_no_source(worker: Worker) -> None:
    """A 2xx whose source is gone: nothing is owed, nothing is published; its return is the only copy."""
    await worker.subscribe("shop")
    worker.sender.latency_s["https://shop.example/"] = 5.0
    worker.offer(event_message())
    await worker.clock.advance(1)
    lose(worker)
    await worker.intake.idle()

    assert (worker.sent("shop"), worker.publisher.confirmed, worker.bugs()) == (1, [], [])


async def test_a_publish_that_a_closed_channel_left_is_not_repeated_without_its_source(
    worker: Worker,
) -> None:
    """Fault 65: both connections break while a confirm is out: no second copy is made."""
    await worker.subscribe("dead", breaker={"failures": 0})
    worker.sender.on(DEAD, Reply(status=503))
    worker.publisher.hang()
    worker.offer(event_message())
    await worker.clock.advance(1)
    assert worker.journal.words()[-1] == "publishing"

    lose(worker)
    worker.publisher.faults = [BrokerUnavailable("the channel closed before the confirm")]
    worker.publisher.go_on()
    await worker.intake.idle()

    assert worker.journal.words().count("publishing") == 1
    assert worker.publisher.confirmed == []


async def test_no_sibling_goes_on_after_its_job(worker: Worker) -> None:
    """One publish is given up while another is under way: the job runs until its answer (fault 58)."""
    under_way = asyncio.Event()
    steps = [worker.outbox.confirmed(ONE, of=OpenTargets(Books(), lambda: True)), _once(under_way)]
    worker.publisher.faults = [BrokerUnavailable("lost")]
    job = asyncio.create_task(together(steps))
    await worker.clock.advance(PAUSE_S)
    assert not job.done()

    under_way.set()

    with pytest.raises(BrokerUnavailable):
        await job


async def _once(event: asyncio.Event) -> None:
    await event.wait()


async def test_messages_of_a_deleted_queue_are_stored_all_the_same(worker: Worker) -> None:
    """Faults 62, 64: no other copy exists, so its job goes on until its failure is stored."""
    await worker.subscribe("dead", breaker={"failures": 0})
    worker.sender.on(DEAD, Reply(status=503))
    worker.publisher.unbound = ANY_RUNG
    ticket = worker.offer(event_message())
    await worker.clock.advance(600)
    assert ticket.alive()  # although its channel is closed: see the contract of the windows

    worker.publisher.unbound = set()
    await worker.intake.idle()

    assert len(worker.waiting()) == 1


def _due(**more: object) -> RawMessage:
    fields: dict[str, object] = {"event": event(), "targets": ("sub_gone",), "not_before": START}
    return delivery_message(DeliveryMessage(**fields | more))  # type: ignore[arg-type]  # the tests' own values


def _expired(worker: Worker) -> RawMessage:
    [shop] = [worker.subscriptions.match("acme", "order.created")[0]]
    return _due(event=event(arrived_at=START - 10**7), targets=(shop.id,))


def _newer(_: Worker) -> RawMessage:
    raw = _due()
    raw.headers = {**raw.headers, "leveret-v": 99}
    return raw


KINDS: dict[str, tuple[Source, Callable[[Worker], RawMessage]]] = {
    "unreadable": (Source.LANE, lambda _: event_message(b"{")),
    "kills workers": (Source.LANE, lambda _: event_message(delivery_count=5)),
    "without an id": (Source.LANE, lambda _: event_message(message_id=None)),
    "too late": (Source.LANE, lambda _: event_message(timestamp_s=START - 60, expiration="1000")),
    "split": (Source.LANE, lambda _: event_message()),
    "early": (Source.DUE, lambda _: _due(not_before=START + 600, wait_s=900.0)),
    "newer": (Source.DUE, _newer),
    "too old": (Source.DUE, _expired),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_no_way_publishes_for_a_source_that_is_gone(kind: str) -> None:
    """Faults 57, 64: for every kind of publish, the job ends and no copy appears later."""
    worker = Worker(max_targets_per_message=1)
    await worker.subscribe_all("shop", "store")
    source, make = KINDS[kind]
    worker.publisher.connected = False
    worker.offer(make(worker), source)
    await worker.clock.advance(60)
    assert worker.intake.running() == 1
    assert "publishing" in worker.journal.words()

    lose(worker)
    await worker.clock.advance(PAUSE_S)
    worker.publisher.connected = True
    await worker.clock.advance(PAUSE_S)

    assert worker.intake.running() == 0
    assert worker.publisher.confirmed == []
    assert [ticket.settles for ticket in worker.tickets if "ack" in ticket.settles] == []
    assert worker.bugs() == []


async def test_deferred_deliveries_are_stored_once(worker: Worker) -> None:
    """An event whose endpoint may not be asked now, and whose channel closes before that is stored."""
    shop = await worker.subscribe("shop")
    worker.sender.on(shop.url, Reply(status=429, retry_after="3600"), Reply())
    await worker.handle(event_message(message_id="first"))
    worker.publisher.connected = False
    worker.offer(event_message(message_id="second"))
    await worker.clock.advance(60)

    lose(worker)
    await worker.clock.advance(PAUSE_S)
    worker.publisher.connected = True
    await worker.clock.advance(PAUSE_S)
    await worker.handle(event_message(message_id="second"))

    assert [message.event.id for message in worker.waiting()] == ["first", "second"]
    assert worker.endpoint(shop).slots.in_flight == 0


async def test_moved_messages_are_given_up_too(worker: Worker) -> None:
    """Fault 71: jobs that wait in hand for their move make room once their source is gone."""
    worker.publisher.reason = "nothing starts"
    spill = Reroute(worker.context, worker.intake, FakeRoutes(), lambda: 2)
    running = asyncio.create_task(spill.run())
    worker.offer(event_message())
    worker.publisher.connected, worker.publisher.reason = False, None
    worker.intake.pause()
    await worker.clock.advance(worker.context.bounds.in_hand_s + 10)
    assert "publishing" in worker.journal.words()

    lose(worker)
    await worker.clock.advance(PAUSE_S)
    worker.publisher.connected = True
    await worker.clock.advance(PAUSE_S)

    await worker.intake.idle()
    running.cancel()
    assert worker.publisher.confirmed == []
    assert worker.bugs() == []
