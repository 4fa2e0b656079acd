"""Each path of a message makes the right entries in the books; the fixture checks that they balance.

The fake broker brings every published message back, so at the end nothing waits by the books either.
"""

from __future__ import annotations

from typing import Any

import pytest

from consumer.core.books import Balance, Books, Origin, Step
from consumer.core.errors import BrokerUnavailable
from consumer.core.message.delivery import headers_of
from consumer.core.message.parked import parked_mark
from consumer.core.message.replay import replayed_delivery
from consumer.flow.base.open_targets import OpenTargets
from consumer.ports import Source
from tests.support.fakes import START
from tests.support.fakes_sender import Reply
from tests.support.flow.books import rest
from tests.support.worker import (
    SHOP,
    LoopBack,
    Worker,
    delivery_message,
    due,
    event_message,
)

START_MS = round(START * 1000)
NEVER = {"failures": 0}
FAST = {"max_attempts": 3, "base_s": 1, "max_s": 1}


def balance(worker: Worker) -> Balance:
    """The state of the worker's books."""
    return worker.context.books.balance()


def ends(worker: Worker) -> tuple[int, int, int, int]:
    """Owed, delivered, parked, and waiting by the books."""
    now = balance(worker)
    return now.owed, now.delivered, now.parked, now.waiting


async def test_a_fan_out_with_failures_ends_in_the_books(worker: Worker) -> None:
    """One target takes the event, one takes the second attempt, one is parked; the unmatched is not owed."""
    broker = LoopBack(worker)
    await worker.subscribe_all("shop", "flaky", "dead", retry=FAST, breaker=NEVER)
    worker.sender.on("https://flaky.example/", Reply(status=503), Reply())
    worker.sender.on("https://dead.example/", *[Reply(status=503)] * 3)

    await worker.handle(event_message())
    assert (balance(worker).waiting, balance(worker).waiting_messages) == (2, 2)
    await broker.run_dry()
    await worker.handle(event_message(tenant="nobody"))

    assert ends(worker) == (3, 2, 1, 0)
    assert balance(worker).waiting_messages == 0


async def test_a_split_event_is_owed_once() -> None:
    """Five targets in messages of two: each is stored, taken and delivered once."""
    worker = Worker(max_targets_per_message=2)
    broker = LoopBack(worker)
    await worker.subscribe_all("a", "b", "c", "d", "e")

    await worker.handle(event_message())
    await broker.run_dry()

    assert ends(worker) == (5, 5, 0, 0)
    assert balance(worker).waiting_messages == 0


async def test_an_expired_event_is_parked_for_each_target(worker: Worker) -> None:
    """Its expiration passed before a worker took it."""
    await worker.subscribe_all("a", "b")

    await worker.handle(event_message(headers={"tenant": "acme", "expires_at_ms": START_MS - 1}))

    assert ends(worker) == (2, 0, 2, 0)


async def test_a_deleted_subscription_is_cancelled_in_the_books(worker: Worker) -> None:
    """Its delivery message is taken off those that wait."""
    crm = await worker.subscribe("crm")
    await worker.unsubscribe("crm")

    await worker.handle(delivery_message(due(crm.id)), Source.DUE)

    assert (balance(worker).cancelled, balance(worker).waiting) == (1, -1)


async def test_a_message_that_goes_on_unread_makes_no_entry(worker: Worker) -> None:
    """A message that returned too often moves to suspect; its target waits on."""
    shop = await worker.subscribe("shop")

    await worker.handle(delivery_message(due(shop.id), delivery_count=5), Source.DUE)

    assert balance(worker) == Balance(*[0] * len(Balance._fields))


async def test_an_early_message_waits_on(worker: Worker) -> None:
    """It is stored once more, and taken once."""
    shop = await worker.subscribe("shop")
    early = due(shop.id, not_before=worker.clock.now() + 5, wait_s=20.0)

    await worker.handle(delivery_message(early), Source.DUE)

    assert (balance(worker).waiting, balance(worker).waiting_messages) == (0, 0)


async def test_a_replay_is_owed_once_more(worker: Worker) -> None:
    """The parked entry stays an end; the replay becomes owed when a worker reads it."""
    await worker.subscribe("shop", retry={"max_attempts": 1}, breaker=NEVER)
    worker.sender.on(SHOP, Reply(status=503), Reply())
    await worker.handle(event_message())
    [entry] = worker.parked()
    again = replayed_delivery(entry, worker.clock.now())
    assert again is not None

    raw = delivery_message(again, headers=headers_of(again) | parked_mark(entry))
    await worker.handle(raw, Source.REPLAY)

    assert ends(worker) == (2, 1, 1, 0)
    assert balance(worker).waiting_messages == 0


async def test_a_copy_of_a_settled_message_makes_no_entry(worker: Worker) -> None:
    """The ack of the first was lost, or the publish was made twice: the books know one message."""
    shop = await worker.subscribe("shop")
    for _ in range(2):
        await worker.handle(delivery_message(due(shop.id)), Source.DUE)

    assert (balance(worker).delivered, balance(worker).waiting, balance(worker).waiting_messages) == (
        1,
        -1,
        -1,
    )


@pytest.mark.parametrize("source", [Source.LANE, Source.DUE])
async def test_a_lost_channel_gives_its_targets_back(worker: Worker, source: Source) -> None:
    """The message comes again: its target is owed, or taken, once more, and delivered once."""
    shop = await worker.subscribe("shop")
    worker.sender.latency_s[SHOP] = 0.5
    raw: dict[Source, Any] = {Source.LANE: event_message, Source.DUE: lambda **m: _message(shop.id, **m)}
    ticket = worker.offer(raw[source](), source)
    await worker.clock.advance(0.1)
    assert balance(worker).in_flight == 1
    ticket.dead = True
    await worker.intake.idle()
    assert balance(worker).in_flight == 0

    await worker.handle(raw[source](redelivered=True), source)

    now = balance(worker)
    assert now.delivered == 1
    assert now.owed - now.owed_again == (source is Source.LANE)
    assert now.waiting == (0 if source is Source.LANE else -1)


def _message(target: str, **more: Any) -> Any:
    return delivery_message(due(target), **more)


async def test_a_publish_that_is_given_up_gives_back_the_rest(worker: Worker) -> None:
    """One target was stored before the channel was lost, another was not: both are owed once more."""
    await worker.subscribe_all("one", "two", breaker=NEVER)
    for name in ("one", "two"):
        worker.sender.on(f"https://{name}.example/", Reply(status=503))
    ticket = worker.offer(event_message())
    worker.publisher.faults = [BrokerUnavailable("lost")]
    await worker.clock.advance(0.01)
    ticket.dead = True
    await worker.clock.advance(30)
    await worker.intake.idle()

    now = balance(worker)
    assert (now.owed, now.in_flight) == (2, 0)
    assert now.waiting + now.owed_again == 2
    assert now.waiting == len(worker.waiting())


async def test_a_bug_gives_its_message_back(worker: Worker) -> None:
    """The message is rejected, and comes again."""
    await worker.subscribe("shop", breaker=NEVER)
    worker.sender.on(SHOP, Reply(status=503))
    worker.publisher.faults = [RuntimeError("a bug")]

    ticket = await worker.handle(event_message())

    assert ticket.settles == ["reject"]
    assert (balance(worker).owed, balance(worker).owed_again, balance(worker).in_flight) == (1, 1, 0)


def test_a_message_that_moves_without_a_target_takes_none_off_those_that_wait() -> None:
    """It was held before its first request, and went on unread: another take counts it."""
    books = Books()
    targets = OpenTargets(books, lambda: False)
    targets.read(Origin.WAITING)
    targets.open(0)

    targets.acked()

    assert books.balance().waiting_messages == 0


def test_an_ack_without_an_end_is_a_positive_rest() -> None:
    """A path that forgets a target shows, so the check of the fixture means something."""
    books = Books()
    targets = OpenTargets(books, lambda: False)
    targets.open(2)
    targets.close(Step.DELIVERED)

    targets.acked()

    assert (rest(books.balance()), books.balance().lost) == (1, 1)
