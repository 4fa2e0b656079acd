"""Messages to all workers: commands of an operator, reports of workers, and forged ones."""

from __future__ import annotations

import orjson
import pytest

from consumer.core.endpoint.agreement import News, NewsKind, NewsMessage, encode
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.flow.control import Control
from consumer.flow.endpoints.agreement import Agreement
from tests.support.worker import Worker, event_message

URL = "https://shop.example/"


def control(worker: Worker, reloads: list[str]) -> Control:
    """The ear of a worker."""
    talk = Agreement(worker.context, worker.subscriptions, worker.endpoints, "w0")
    subscriptions, endpoints = worker.subscriptions, worker.endpoints
    return Control(subscriptions, endpoints, talk, worker.context, lambda: reloads.append("again"))


async def waiting_shop(worker: Worker) -> Subscription:
    """A subscription with a low rate, for which most of eleven deliveries wait."""
    [shop] = await worker.subscribe_all("shop", rate_per_s=0.1, burst=1)
    for number in range(11):
        await worker.handle(event_message(message_id=f"e{number}"))
    return shop


async def test_an_operators_words_are_obeyed(worker: Worker) -> None:
    """Open and reset; a reload; and the messages of other workers."""
    [shop] = await worker.subscribe_all("shop")
    reloads = list[str]()
    ear = control(worker, reloads)
    ear.take(orjson.dumps({"kind": "open", "subscription": shop.id}))
    await worker.handle(event_message(message_id="held"))
    assert (worker.endpoint(shop).state, worker.sent("shop")) == ("open", 0)

    ear.take(orjson.dumps({"kind": "reset", "subscription": shop.id}))
    await worker.handle(event_message(message_id="sent"))

    assert (worker.endpoint(shop).state, worker.sent("shop")) == ("closed", 1)
    ear.take(orjson.dumps({"kind": "reload"}))
    assert reloads == ["again"]
    await worker.clock.advance(3.0)  # its own success is no news any more
    news = News(
        subscription=shop.id, endpoint=endpoint_id("acme", URL), state="open", epoch=9_000, rest_s=9.0
    )
    ear.take(encode(NewsMessage(NewsKind.STATE, "w1", [news])))
    assert worker.endpoint(shop).state == "open"


async def test_kicked_deliveries_are_sent_at_the_rate_at_once(worker: Worker) -> None:
    """`leveret waiting kick` frees all reservations: no delivery waits for them."""
    [shop] = await worker.subscribe_all("shop", rate_per_s=1, burst=1)
    for number in range(11):
        await worker.handle(event_message(message_id=f"e{number}"))
    assert worker.sent("shop") == 1
    await worker.clock.advance(1.0)

    control(worker, []).take(orjson.dumps({"kind": "free", "tenant": "acme", "subscription": None}))
    await worker.handle(event_message(message_id="kicked"))

    assert worker.sent("shop") == 2
    assert worker.endpoint(shop).state == "closed"


async def test_a_partial_kick_leaves_the_others_waiting(worker: Worker) -> None:
    """`leveret waiting kick` of one event: the endpoint's other deliveries still count as waiting."""
    shop = await waiting_shop(worker)
    ear, book = control(worker, []), worker.context.observe.troubles.book
    waiting = book.waiting_of(shop.id, worker.clock.now())
    assert waiting >= 8

    ear.take(orjson.dumps({"kind": "kicked", "of": {shop.id: 1}, "whole": False}))
    assert book.waiting_of(shop.id, worker.clock.now()) == waiting - 1

    ear.take(orjson.dumps({"kind": "free", "tenant": "acme", "subscription": None}))
    ear.take(
        orjson.dumps({"kind": "kicked", "of": {shop.id: 2, "sub_x": -1, "sub_y": "many"}, "whole": False})
    )
    assert book.waiting_of(shop.id, worker.clock.now()) == waiting - 3

    ear.take(orjson.dumps({"kind": "free", "tenant": "acme", "subscription": None}))
    ear.take(orjson.dumps({"kind": "kicked", "of": {shop.id: waiting - 3}, "whole": True}))
    assert book.waiting_of(shop.id, worker.clock.now()) == 0


async def test_a_whole_kick_that_found_nothing_leaves_nothing_waiting(worker: Worker) -> None:
    """S0-6: all of a subscription's deliveries had left their rungs, to be parked, before the kick came."""
    shop = await waiting_shop(worker)
    ear, book = control(worker, []), worker.context.observe.troubles.book
    kicked = {"kind": "kicked", "of": {}, "whole": True, "tenant": None}

    ear.take(orjson.dumps({"kind": "free", "tenant": None, "subscription": shop.id}))
    ear.take(orjson.dumps({**kicked, "subscription": "sub_other"}))
    assert book.waiting_of(shop.id, worker.clock.now()) >= 8

    ear.take(orjson.dumps({**kicked, "subscription": shop.id}))
    assert book.waiting_of(shop.id, worker.clock.now()) == 0


async def test_cancelled_deliveries_wait_no_longer(worker: Worker) -> None:
    """All of a subscription, or as many as the command reports."""
    shop = await waiting_shop(worker)
    ear, book = control(worker, []), worker.context.observe.troubles.book
    waiting = book.waiting_of(shop.id, worker.clock.now())
    report = {"kind": "cancelled", "targets": 2, "messages": 2, "of": {shop.id: 2}}

    ear.take(orjson.dumps({**report, "whole": False}))
    assert book.waiting_of(shop.id, worker.clock.now()) == waiting - 2

    ear.take(orjson.dumps({**report, "whole": True}))
    assert book.waiting_of(shop.id, worker.clock.now()) == 0


async def test_purged_entries_count_in_the_ages_once(worker: Worker) -> None:
    """S1-10: a command has no metrics; only the leading worker counts, for all entries."""
    ear = control(worker, [])

    ear.take(orjson.dumps({"kind": "purged", "ages_s": [10.0, 700, "old", None]}))
    ear.take(orjson.dumps({"kind": "purged", "ages_s": "many"}))

    assert worker.count("parked_age_seconds_count", way="purged") == 2
    assert worker.count("parked_age_seconds_bucket", way="purged", le="3600.0") == 2


async def test_cancelled_deliveries_are_in_the_books_once(worker: Worker) -> None:
    """A command has no books; only the leading worker writes, and only what a command can have counted."""
    ear = control(worker, [])

    ear.take(orjson.dumps({"kind": "cancelled", "targets": 3, "messages": 2}))
    for wrong in (-1, "many", 2**63 - 1, None):
        ear.take(orjson.dumps({"kind": "cancelled", "targets": 3, "messages": wrong}))

    balance = worker.context.books.balance()
    assert (balance.cancelled, balance.waiting, balance.waiting_messages) == (3, -3, -2)


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'"open"', b"{}", b'{"kind": []}', b'{"kind": "open"}'])
async def test_unknown_messages_are_passed_by(worker: Worker, body: bytes) -> None:
    """Every message of a publisher is harmless."""
    await worker.subscribe_all("shop")

    control(worker, []).take(body)
    await worker.handle(event_message())

    assert worker.sent("shop") == 1
    assert worker.bugs() == []
