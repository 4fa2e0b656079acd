"""Parked entries: their display for an operator, and one id for the same thing parked twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.errors import BadEvent
from consumer.core.message.delivery import DeliveryMessage, UnknownVersion, unwrap_raw, wrap_raw
from consumer.core.message.parked import (
    MAX_DETAIL,
    ParkNote,
    delivery_entry_headers,
    delivery_id,
    entry_as_dict,
    raw_entry_headers,
    read_entry,
    rfc3339,
)
from consumer.core.message.replay import replayed_delivery
from consumer.core.model import ParkReason, RawMessage
from tests.support.builders.deliveries import MS, deliveries
from tests.support.builders.messages import message
from tests.support.builders.parked import AT, NOTE, delivery, parked
from tests.support.builders.strategies import MESSAGES

NOTES = st.builds(
    ParkNote,
    reason=st.sampled_from(ParkReason),
    detail=st.text(st.characters(exclude_categories=()), max_size=1_200),
    at=MS,
    ttl_s=MS,
)


@settings(max_examples=60)
@given(deliveries(), NOTES)
def test_a_parked_delivery_is_read_as_it_was_parked(owed: DeliveryMessage, note: ParkNote) -> None:
    """The event's bytes, every attempt, reason and times come back; the reason is never empty (S1-3)."""
    raw = message(owed.event.body, content_type=owed.event.content_type)

    entry = read_entry(parked(raw, delivery_entry_headers(owed, note)))

    assert entry.delivery == owed
    assert (entry.reason, entry.parked_at, entry.ttl_s) == (note.reason, note.at, note.ttl_s)
    assert entry.detail
    assert len(entry.detail) <= MAX_DETAIL
    assert entry.detail.encode()
    if note.detail and note.detail.isprintable():
        assert entry.detail == note.detail[:MAX_DETAIL]


@settings(max_examples=60)
@given(MESSAGES, NOTES)
def test_any_raw_message_can_be_parked(raw: RawMessage, note: ParkNote) -> None:
    """A producer's message is parked with its raw bytes and shown, for every content (faults 1, 12)."""
    entry = read_entry(parked(raw, raw_entry_headers(raw, note)))

    assert entry.raw is not None
    assert entry.raw.body == raw.body == entry.body
    assert (entry.raw.exchange, entry.raw.routing_key) == (raw.exchange, raw.routing_key)
    assert entry_as_dict(entry)["size_bytes"] == len(raw.body)


def test_an_entry_is_shown_with_the_fields_of_the_requirement() -> None:
    """Job id, event id, tenant, attempts, last failure, times and TTL by their stable names (S1-3)."""
    shown = entry_as_dict(read_entry(parked(message(), delivery_entry_headers(delivery(), NOTE))))

    assert shown == {
        "id": "prk_" + delivery_id("ord-1", "sub_1")[4:],
        "reason": "exhausted",
        "detail": "HTTP 503",
        "parked_at": "2023-11-14T22:13:20.000Z",
        "ttl_s": 604_800.0,
        "size_bytes": 7,
        "delivery_id": delivery_id("ord-1", "sub_1"),
        "event_id": "ord-1",
        "subscription_id": "sub_1",
        "tenant": "acme",
        "type": "order.created",
        "exchange": None,
        "routing_key": None,
        "content_type": "application/json",
        "arrived_at": "2023-11-14T22:12:20.000Z",
        "replays": 0,
        "replayed_at": None,
        "failed_attempts": 2,
        "last_failure_code": "timeout_total",
        "last_failure_at": "2023-11-14T22:12:55.000Z",
        "attempts": [
            {
                "replay": 0,
                "number": 1,
                "at": "2023-11-14T22:12:30.000Z",
                "kind": "http_5xx",
                "status": 503,
                "duration_s": 0.25,
                "wait_s": 4.0,
            },
            {
                "replay": 0,
                "number": 2,
                "at": "2023-11-14T22:12:40.000Z",
                "kind": "timeout_total",
                "status": None,
                "duration_s": 15.0,
                "wait_s": None,
            },
        ],
    }


def test_an_entry_keeps_every_attempt_over_all_replays() -> None:
    """S1-5, S1-3: after a failed replay the entry has all attempts, the first arrival and the count."""
    first = read_entry(parked(message(), delivery_entry_headers(delivery(), NOTE)))
    again = replayed_delivery(first, AT + 100)
    assert again is not None
    failed = replace(again, attempts=(delivery().attempts[0]._replace(at=AT + 101),), attempts_made=1)

    shown = entry_as_dict(read_entry(parked(message(), delivery_entry_headers(failed, NOTE))))

    assert (shown["arrived_at"], shown["replayed_at"]) == (rfc3339(AT - 60), rfc3339(AT + 100))
    assert (shown["replays"], shown["failed_attempts"], shown["last_failure_code"]) == (1, 3, "503")
    attempts: Any = shown["attempts"]
    assert [(a["replay"], a["number"], a["at"], a["wait_s"]) for a in attempts] == [
        (0, 1, rfc3339(AT - 50), 4.0),
        (0, 2, rfc3339(AT - 40), None),
        (1, 1, rfc3339(AT + 101), 4.0),
    ]


def test_a_replay_that_made_no_attempt_shows_the_failure_before_it() -> None:
    """S1-3: without an attempt since, the last failure is its endpoint's, else the one before the replay."""
    again = replayed_delivery(read_entry(parked(message(), delivery_entry_headers(delivery(), NOTE))), AT)
    assert again is not None
    of_endpoint = delivery().attempts[0]

    alone = read_entry(parked(message(), delivery_entry_headers(again, NOTE)))
    beside = read_entry(
        parked(
            message(), delivery_entry_headers(again, replace(NOTE, failure=of_endpoint._replace(wait_s=None)))
        )
    )

    assert alone.last == delivery().attempts[1]
    assert beside.last == of_endpoint._replace(wait_s=None)


def test_the_worker_before_reads_a_replay_and_this_one_reads_its_entries() -> None:
    """Rolling upgrades: attempts have their old form, and an entry without new headers was never replayed."""
    headers = delivery_entry_headers(delivery(), NOTE)
    new = {name for name in headers if name in ("leveret-waits", "leveret-replays", "leveret-first-arrived")}

    before = read_entry(parked(message(), {k: v for k, v in headers.items() if k not in new}))

    assert new == {"leveret-waits"}
    assert [len(part.split(",")) for part in str(headers["leveret-attempts"]).split(";")] == [5, 5]
    assert before.delivery is not None
    assert before.delivery.attempts == tuple(a._replace(wait_s=None) for a in delivery().attempts)
    assert (before.delivery.replays, before.delivery.first_arrived_at) == (0, AT - 60)


def test_a_status_is_the_code_where_there_was_one() -> None:
    """The last failure's code is its HTTP status, else the kind of error (S1-3)."""
    owed = delivery(attempts=delivery().attempts[:1], attempts_made=1)

    shown = entry_as_dict(read_entry(parked(message(), delivery_entry_headers(owed, NOTE))))

    assert shown["last_failure_code"] == "503"


def test_an_untried_delivery_has_no_failure() -> None:
    """A delivery parked on arrival shows no code, no time and no attempts."""
    owed = delivery(attempts=(), attempts_made=0)

    shown = entry_as_dict(read_entry(parked(message(), delivery_entry_headers(owed, NOTE))))

    assert (shown["last_failure_code"], shown["last_failure_at"], shown["attempts"]) == (None, None, [])


def test_a_raw_entry_is_shown_with_its_producers_properties() -> None:
    """Tenant, type, id, exchange and key of the producer; no delivery, no attempts (S1-3)."""
    raw = message(b"{", type="order.created")

    shown = entry_as_dict(read_entry(parked(raw, raw_entry_headers(raw, NOTE))))

    assert shown == {
        "id": raw_entry_headers(raw, NOTE)["leveret-entry"],
        "reason": "exhausted",
        "detail": "HTTP 503",
        "parked_at": "2023-11-14T22:13:20.000Z",
        "ttl_s": 604_800.0,
        "size_bytes": 1,
        "delivery_id": None,
        "event_id": "ord-1",
        "subscription_id": None,
        "tenant": "acme",
        "type": "order.created",
        "exchange": "leveret.events",
        "routing_key": raw.routing_key,
        "content_type": raw.content_type,
        "arrived_at": None,
        "replays": 0,
        "replayed_at": None,
        "failed_attempts": 0,
        "last_failure_code": None,
        "last_failure_at": None,
        "attempts": [],
    }


@settings(max_examples=60)
@given(MESSAGES, deliveries(), NOTES)
def test_every_entry_has_the_same_fields(raw: RawMessage, owed: DeliveryMessage, note: ParkNote) -> None:
    """A program that reads the rows finds each name in each of them, in one order (S1-3)."""
    one = entry_as_dict(read_entry(parked(raw, raw_entry_headers(raw, note))))
    other = entry_as_dict(read_entry(parked(message(), delivery_entry_headers(owed, note))))

    assert list(one) == list(other)


def test_the_same_thing_parked_twice_has_one_id() -> None:
    """A crash between confirm and ack parks twice; the ids show that it is one (fault 57)."""
    again = replace(NOTE, at=AT + 99, detail="later")
    raw = message()

    assert (
        delivery_entry_headers(delivery(), NOTE)["leveret-entry"]
        == delivery_entry_headers(delivery(attempts=(), attempts_made=0), again)["leveret-entry"]
    )
    assert raw_entry_headers(raw, NOTE)["leveret-entry"] == raw_entry_headers(raw, again)["leveret-entry"]


@settings(max_examples=200)
@given(MESSAGES)
def test_one_message_has_one_id_on_every_way(raw: RawMessage) -> None:
    """Fault 57: whether it comes again, comes from suspect, or died on the way, it is one entry."""
    again = replace(raw, headers={**raw.headers, "x-delivery-count": 3}, redelivered=True, delivery_count=3)
    moved = unwrap_raw(replace(raw, headers=wrap_raw(raw), queue="leveret.suspect"))
    dead = replace(raw, headers={**raw.headers, "x-death": [{"queue": "q"}]}, expiration=None)

    ids = {str(raw_entry_headers(each, NOTE)["leveret-entry"]) for each in (raw, again, moved, dead)}

    assert len(ids) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"headers": {"tenant": "other"}},
        {"headers": {"tenant": "acme", "ce-tenant": "acme"}},
        {"content_type": "text/plain"},
        {"content_encoding": "gzip"},
        {"type": "order.created"},
        {"timestamp_s": 5.0},
        {"app_id": "shop"},
        {"correlation_id": "c"},
        {"exchange": "shop"},
    ],
    ids=str,
)
def test_two_messages_of_one_body_have_two_ids(other: dict[str, Any]) -> None:
    """Fault 89: two tenants' broken JSON are two entries, and a replay of one leaves the other."""
    raw = message(b'{"broken":', headers={"tenant": "acme"}, message_id=None)

    one, two = (raw_entry_headers(each, NOTE)["leveret-entry"] for each in (raw, replace(raw, **other)))

    assert one != two


def test_different_things_have_different_ids() -> None:
    """Another target, event, body or message id is another entry."""
    raw = message()
    headers = [
        delivery_entry_headers(delivery(), NOTE),
        delivery_entry_headers(delivery(targets=("sub_2",)), NOTE),
        delivery_entry_headers(delivery(event=replace(delivery().event, id="ord-2")), NOTE),
        raw_entry_headers(raw, NOTE),
        raw_entry_headers(message(b"other"), NOTE),
        raw_entry_headers(message(message_id="ord-2"), NOTE),
        raw_entry_headers(message(routing_key="order.paid"), NOTE),
    ]

    assert len({str(each["leveret-entry"]) for each in headers}) == len(headers)


def test_a_delivery_has_one_name_for_ever() -> None:
    """The id of a delivery depends on event and subscription alone, and on where one ends (jobId, S1-3)."""
    assert delivery_id("ord-1", "sub_1") == "dlv_78572762f85e997a"
    assert delivery_id("a", "bc") != delivery_id("ab", "c")


@pytest.mark.parametrize(
    "broken",
    [
        {"leveret-reason": "because"},
        {"leveret-reason": None},
        {"leveret-parked-at": "yesterday"},
        {"leveret-ttl": None},
        {"leveret-targets": 5},
    ],
)
def test_a_broken_entry_is_named_as_such(broken: dict[str, object]) -> None:
    """A message that is not one of our entries is a bad event, never another error."""
    with pytest.raises(BadEvent):
        read_entry(parked(message(), delivery_entry_headers(delivery(), NOTE) | broken))


def test_a_stranger_in_the_parked_queue_is_named_as_such() -> None:
    """Somebody published to it by hand."""
    with pytest.raises(BadEvent):
        read_entry(message())


def test_an_entry_of_a_newer_worker_is_left_alone() -> None:
    """Rolling upgrades: its format is not guessed at."""
    with pytest.raises(UnknownVersion):
        read_entry(parked(message(), delivery_entry_headers(delivery(), NOTE) | {"leveret-v": 2}))


def test_times_are_shown_in_utc_with_milliseconds() -> None:
    """RFC 3339 with Z."""
    assert rfc3339(1_700_000_000.1234) == "2023-11-14T22:13:20.123Z"
