"""Raw dead letters become parked entries, refused ones wait for room, expired ones are archived."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest

from consumer.core.message.delivery import DeliveryMessage, wrap_raw
from consumer.core.message.parked import delivery_entry_headers, raw_entry_headers
from consumer.core.model import ParkReason
from consumer.ports import Incoming
from tests.support.fakes import START, FakeTicket
from tests.support.flow.dead_letters import NOTE, DeadLetterDesk, dead
from tests.support.worker import DUE, NAMES, delivery_message, event, event_message


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("delivery_limit", ParkReason.POISON),
        ("expired", ParkReason.EXPIRED),
        ("rejected", ParkReason.UNDELIVERABLE),
        ("maxlen", ParkReason.UNDELIVERABLE),
        ("something new", ParkReason.UNDELIVERABLE),
    ],
)
async def test_a_dead_event_is_parked_with_its_cause_of_death(
    desk: DeadLetterDesk, why: str, reason: ParkReason
) -> None:
    """With its raw bytes and the exchange and key of its producer, confirmed, then acked (faults 19, 70)."""
    ticket = await desk.take(dead(event_message(b"{"), why, NAMES.lane(3)))

    [entry] = desk.worker.parked()
    assert entry.reason is reason
    assert NAMES.lane(3) in entry.detail
    assert entry.raw is not None
    assert (entry.raw.exchange, entry.raw.routing_key) == (NAMES.events, "order.created")
    assert entry.raw.queue == NAMES.lane(3)
    assert entry.body == b"{"
    assert ticket.settles == ["ack"]
    assert desk.worker.journal.words() == ["publishing", "confirmed", "ack"]


async def test_a_dead_delivery_message_is_parked_for_each_target(desk: DeadLetterDesk) -> None:
    """One entry per delivery, attempts kept (fault 70)."""
    owed = DeliveryMessage(event=event(), targets=("sub_1", "sub_2"), not_before=START)

    await desk.take(dead(delivery_message(owed), "delivery_limit", DUE))

    entries = desk.worker.parked()
    assert [entry.delivery.targets for entry in entries if entry.delivery] == [("sub_1",), ("sub_2",)]
    assert {entry.reason for entry in entries} == {ParkReason.POISON}
    assert len({entry.id for entry in entries}) == 2
    books = desk.worker.context.books.balance()
    assert (books.parked, books.waiting, books.waiting_messages, books.in_flight) == (2, -2, -1, 0)


@pytest.mark.parametrize(
    ("queue", "exchange"),
    [
        (NAMES.suspect, NAMES.dlx),
        (NAMES.spill(2), NAMES.due),
        (NAMES.stray, NAMES.due),
        (DUE, NAMES.due),
    ],
)
async def test_a_poisonous_event_is_parked_as_its_producer_sent_it(
    desk: DeadLetterDesk, queue: str, exchange: str
) -> None:
    """Out of a queue of ours it comes wrapped; the entry is not (fault 70).

    fault 16: otherwise a replay would lose its tenant.
    """
    raw = event_message(b"\x00poison")
    wrapped = event_message(b"\x00poison", headers=wrap_raw(raw), exchange=exchange, routing_key="own")

    await desk.take(dead(wrapped, "delivery_limit", queue))

    [entry] = desk.worker.parked()
    assert entry.reason is ParkReason.POISON
    assert entry.raw is not None
    assert (entry.raw.routing_key, entry.raw.headers) == ("order.created", {"tenant": "acme"})


async def test_a_producer_cannot_pass_for_us(desk: DeadLetterDesk) -> None:
    """Forged headers on an event that died in a lane: parked as the raw message that it is (fault 18)."""
    owed = DeliveryMessage(event=event(tenant="victim"), targets=("sub_victim",))
    forged = delivery_message(owed, exchange=NAMES.events, routing_key="order.created")

    await desk.take(dead(forged, "expired", NAMES.lane(0)))

    [entry] = desk.worker.parked()
    assert entry.delivery is None
    assert entry.raw is not None


async def test_a_key_that_is_no_utf_8_is_kept(desk: DeadLetterDesk) -> None:
    """Faults 90, 12: the broker's record of it is bytes; the entry shows the key as a lane's reader would."""
    await desk.take(dead(event_message(), "expired", NAMES.lane(0), **{"routing-keys": [b"order.\xff"]}))

    [entry] = desk.worker.parked()
    assert entry.raw is not None
    assert (entry.reason, entry.raw.routing_key) == (ParkReason.EXPIRED, r"order.\xff")


@pytest.mark.parametrize(
    "forged",
    [
        {"count": 2},
        {"exchange": NAMES.dlx},
        {"exchange": NAMES.due},
        {"routing-keys": []},
        {"routing-keys": "order.created"},
        {"queue": NAMES.died},
        {"queue": NAMES.inbox_died("crm")},
        {"queue": "somewhere.else"},
        {"queue": NAMES.parked},
        {"reason": 5},
        {"exchange": "x" * 256},
        {"routing-keys": [b"\xff" * 64]},
        {"routing-keys": [bytearray(b"order.created")]},
    ],
    ids=str,
)
async def test_a_death_that_no_queue_of_ours_made_is_not_believed(
    desk: DeadLetterDesk, forged: dict[str, Any]
) -> None:
    """Fault 89: the entry reports it, and takes no exchange and no key from it, so that replays use none."""
    death = {"reason": "expired", "queue": NAMES.lane(0)} | forged
    await desk.take(dead(event_message(), **death))

    [entry] = desk.worker.parked()
    assert (entry.reason, "x-death" in entry.detail) == (ParkReason.UNDELIVERABLE, True)
    assert entry.raw is not None
    assert (entry.raw.exchange, entry.raw.routing_key) == (NAMES.dlx, "raw")


async def test_a_second_death_of_an_event_is_not_believed(desk: DeadLetterDesk) -> None:
    """Fault 89: an event with a recorded death enters no lane, so an event dies once."""
    raw = dead(event_message(), "expired", NAMES.lane(0))
    deaths: Any = raw.headers["x-death"]
    raw.headers = {**raw.headers, "x-death": [*deaths, {"queue": NAMES.overflow, "reason": "expired"}]}

    await desk.take(raw)

    assert [entry.reason for entry in desk.worker.parked()] == [ParkReason.UNDELIVERABLE]


@pytest.mark.parametrize("deaths", [None, [], "none", [5], {}, [{}]])
async def test_a_message_without_a_death_is_parked_all_the_same(desk: DeadLetterDesk, deaths: Any) -> None:
    """Foreign messages in overflow are parked as undeliverable; nothing stalls."""
    raw = event_message(headers={"x-death": deaths}, routing_key="raw")

    ticket = await desk.take(raw)

    assert [entry.reason for entry in desk.worker.parked()] == [ParkReason.UNDELIVERABLE]
    assert ticket.settles == ["ack"]


@pytest.mark.parametrize("headers", [{"leveret-v": 1}, {"leveret-v": 1, "leveret-raw": "{"}])
async def test_a_message_that_resembles_ours_is_parked_raw(
    desk: DeadLetterDesk, headers: dict[str, Any]
) -> None:
    """A broken message of our own queues is malformed, with its bytes."""
    raw = dead(event_message(headers=headers), "rejected", NAMES.suspect)

    ticket = await desk.take(raw)

    assert [entry.reason for entry in desk.worker.parked()] == [ParkReason.MALFORMED]
    assert ticket.settles == ["ack"]


async def test_an_expired_entry_is_archived_before_its_ack(desk: DeadLetterDesk) -> None:
    """Nothing is ever removed silently: on disk, counted, logged, with its bytes (S1-4)."""
    owed = DeliveryMessage(event=event(), targets=("sub_1",), attempts_made=0)
    raw = delivery_message(owed, headers=delivery_entry_headers(owed, NOTE))

    ticket = await desk.take(raw, expired=True)

    [entry] = desk.archive.entries
    assert entry["reason"] == "exhausted"
    assert entry["event_id"] == "ord-1"
    assert base64.b64decode(str(entry["body_base64"])) == b'{"n":1}'
    assert desk.worker.count("deliveries_total", verdict="archived") == 1
    assert len(desk.worker.log.events("parked.expired")) == 1
    assert ticket.settles == ["ack"]


async def test_a_stranger_in_the_expired_queue_is_archived_too(desk: DeadLetterDesk) -> None:
    """Bytes and reason, so that nothing is lost."""
    ticket = await desk.take(event_message(b"?"), expired=True)

    assert desk.archive.entries[0]["reason"] == "malformed"
    assert ticket.settles == ["ack"]


async def test_a_raw_entry_is_archived_with_its_producers_properties(desk: DeadLetterDesk) -> None:
    """Exchange, key, tenant."""
    raw = event_message(b"{")

    await desk.take(event_message(b"{", headers=raw_entry_headers(raw, NOTE)), expired=True)

    assert desk.archive.entries[0]["routing_key"] == "order.created"


async def test_a_full_disk_keeps_the_entry_at_the_broker(desk: DeadLetterDesk) -> None:
    """Not archived: reported, given back after a pause, and the next one is worked off (fault 68)."""
    desk.archive.failures = [OSError(28, "No space left on device")]
    first = await desk.take(event_message(b"1"), expired=True)
    assert first.settles == []
    second = await desk.take(event_message(b"2"), expired=True)

    await desk.worker.clock.advance(6)

    assert first.settles == ["requeue"]
    assert second.settles == ["ack"]
    assert len(desk.worker.bugs()) == 1


GARBLED_HEADERS = {
    "newer": {"leveret-v": 2},
    "far": {"leveret-parked-at": 10**18},
    "endless": {"leveret-parked-at": float("inf")},
    "none": {"leveret-parked-at": float("nan")},
    "decimal": {"leveret-parked-at": Decimal("1.5")},
}


@pytest.mark.parametrize("garbled", GARBLED_HEADERS.values(), ids=GARBLED_HEADERS)
async def test_an_expired_entry_that_cannot_be_read_is_archived_raw(
    desk: DeadLetterDesk, garbled: dict[str, object]
) -> None:
    """A newer worker's or an absurd one: with headers and bytes, and it stops nothing (S1-4, fault 68)."""
    owed = DeliveryMessage(event=event(), targets=("sub_1",))
    headers = delivery_entry_headers(owed, NOTE) | garbled

    ticket = await desk.take(delivery_message(owed, headers=headers), expired=True)

    [entry] = desk.archive.entries
    assert ticket.settles == ["ack"]
    assert entry["headers"] == headers
    assert "cannot be read" in str(entry["detail"])
    assert base64.b64decode(str(entry["body_base64"])) == b'{"n":1}'
    assert desk.worker.bugs() == []


@pytest.mark.parametrize(
    "garbled",
    [{"leveret-v": 2}, {"leveret-not-before": float("inf")}, {"leveret-wait": float("nan")}],
    ids=["newer", "endless", "none"],
)
async def test_a_dead_delivery_message_that_cannot_be_read_is_parked_raw(
    desk: DeadLetterDesk, garbled: dict[str, object]
) -> None:
    """A foreign message is parked with its bytes and headers, and it stops nothing (faults 19, 70)."""
    owed = DeliveryMessage(event=event(), targets=("sub_1",))
    raw = delivery_message(owed)
    raw.headers = {**raw.headers, **garbled}

    ticket = await desk.take(dead(raw, "delivery_limit", DUE))

    [entry] = desk.worker.parked()
    assert ticket.settles == ["ack"]
    assert entry.raw is not None
    assert entry.raw.headers["leveret-event"] == "ord-1"
    assert (entry.reason, entry.body) == (ParkReason.MALFORMED, b'{"n":1}')
    assert desk.worker.bugs() == []


async def test_a_dead_ticket_is_skipped(desk: DeadLetterDesk) -> None:
    """It comes again by itself: parked once, not twice (fault 67)."""
    ticket = FakeTicket()
    ticket.dead = True
    desk.overflow.offer(Incoming(dead(event_message(), "expired", NAMES.lane(0)), ticket), expired=False)

    await desk.worker.clock.advance(10)

    assert desk.worker.publisher.confirmed == []
    assert ticket.settles == []
