"""The codec of delivery messages and of wrapped raw messages: nothing changes on the way."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp.decode import field_table as decode_table
from pamqp.encode import field_table as encode_table

from consumer.core.errors import BadEvent
from consumer.core.event.decode import decode_event
from consumer.core.message.delivery import (
    KEPT_ATTEMPTS,
    VERSION,
    WRAPPED_HEADERS_BYTES,
    DeliveryMessage,
    UnknownVersion,
    headers_of,
    is_ours,
    is_wrapped,
    read_delivery,
    short_text,
    unwrap_raw,
    wrap_raw,
)
from consumer.core.model import Attempt, Event, OutcomeKind, ParkReason, RawMessage
from consumer.core.text.milliseconds import ceil_ms
from tests.support.builders.deliveries import MS, deliveries
from tests.support.builders.messages import NOW, RULES, attempt, message
from tests.support.builders.strategies import ALL_RULES, MESSAGES, VALUES

MORE_HEADERS = ("leveret-form", "leveret-span", "leveret-extras", "leveret-trace", "leveret-expires")


def on_queue(delivery: DeliveryMessage, **headers: object) -> RawMessage:
    """A delivery message as a due queue gives it out, after a way over the wire."""
    table: Any = {**headers_of(delivery), **headers}
    _, wired = decode_table(encode_table(table))
    return RawMessage(
        body=delivery.event.body,
        headers={k: v for k, v in wired.items() if v is not None},
        exchange="leveret.due",
        routing_key="0.leveret.due.00",
        content_type=delivery.event.content_type,
        queue="leveret.due.00",
    )


def ordinary(**more: Any) -> DeliveryMessage:
    """A delivery message of one target."""
    event = Event(
        id="ord-1",
        tenant="acme",
        type="order.created",
        timestamp="2023-11-14T22:13:20Z",
        arrived_at=NOW,
        body=b'{"n":1}',
    )
    fields: dict[str, Any] = {"event": event, "targets": ("sub_1",)}
    return DeliveryMessage(**fields | more)


@given(deliveries())
def test_a_delivery_message_comes_back_as_it_was(delivery: DeliveryMessage) -> None:
    """Over the wire and back: the same event, targets, attempts and times, to the millisecond."""
    assert read_delivery(on_queue(delivery)) == delivery


@given(MS | st.floats(0, 4e9))
def test_times_are_rounded_up(seconds: float) -> None:
    """A time never comes back earlier than it was, and at most a millisecond later: never early."""
    ms = ceil_ms(seconds)

    assert seconds - 1e-6 <= ms / 1000 < seconds + 0.0011


def test_a_thousand_attempts_stay_within_a_frame() -> None:
    """Attempts past 64 are counted and no longer listed; the newest stay (S1-3)."""
    attempts = tuple(
        Attempt(number=n, at=NOW, kind=OutcomeKind.HTTP_5XX, status=503, duration_s=0.25)
        for n in range(1, 1001)
    )
    delivery = ordinary(attempts=attempts, attempts_made=1000)

    back = read_delivery(on_queue(delivery))

    assert back.attempts_made == 1000
    assert [a.number for a in back.attempts] == list(range(1001 - KEPT_ATTEMPTS, 1001))
    assert len(orjson.dumps(headers_of(delivery))) < 8_192


def test_our_headers_are_all_that_is_written() -> None:
    """Nothing but ``leveret-*`` leaves with a delivery message (fault 18)."""
    headers = headers_of(ordinary())

    assert all(name.startswith("leveret-") for name in headers)
    assert headers["leveret-v"] == VERSION
    assert is_ours(on_queue(ordinary()))


@pytest.mark.parametrize("version", [VERSION + 1, 99, "1.5", None, [1]])
def test_an_unknown_version_is_left_to_a_newer_worker(version: object) -> None:
    """A format from the future is no bad event: it goes back to the ladder."""
    raw = on_queue(ordinary())
    raw.headers = {**raw.headers, "leveret-v": version}

    with pytest.raises(UnknownVersion):
        read_delivery(raw)


def test_a_stranger_on_our_queue_is_a_bad_event() -> None:
    """Somebody published to a due queue: parked as malformed, the queue named."""
    with pytest.raises(BadEvent, match=r"leveret\.lane\.00") as caught:
        read_delivery(message())

    assert caught.value.reason == ParkReason.MALFORMED


@given(
    st.dictionaries(
        st.sampled_from([*sorted(headers_of(ordinary(exact=True, attempts_made=1))), *MORE_HEADERS]),
        VALUES,
        min_size=1,
    )
)
def test_broken_headers_never_raise_anything_else(broken: dict[str, Any]) -> None:
    """A delivery message with any of its headers replaced by anything is read, or refused by name."""
    raw = on_queue(ordinary())
    raw.headers = {**raw.headers, **broken}

    try:
        back = read_delivery(raw)
    except (BadEvent, UnknownVersion):
        return
    assert isinstance(back.event.extras, dict)
    assert isinstance(back.event.tenant, str)
    assert isinstance(back.not_before + back.wait_s + back.event.arrived_at, float)


@pytest.mark.parametrize("value", [Decimal("sNaN"), Decimal("NaN"), float("nan"), 1.5, "1", None, [1]])
@pytest.mark.parametrize("header", ["leveret-arrived", "leveret-not-before", "leveret-wait"])
def test_a_time_that_is_no_whole_number_is_refused(header: str, value: object) -> None:
    """It would be in every comparison later, or raise there (fault 16)."""
    raw = on_queue(ordinary())
    raw.headers = {**raw.headers, header: value}

    with pytest.raises(BadEvent):
        read_delivery(raw)


@pytest.mark.parametrize("text", ["[]", "5", "null", '"text"', "{"])
@pytest.mark.parametrize("header", ["leveret-extras", "leveret-trace"])
def test_extras_that_are_no_table_are_refused(header: str, text: str) -> None:
    """They would break the webhook's body or headers later, far from their cause."""
    with pytest.raises(BadEvent):
        read_delivery(on_queue(ordinary(), **{header: text}))


# wrapping


def on_wire(value: object) -> bool:
    """Whether AMQP can carry *value* so that our client reads it back."""
    match value:
        case int():
            return -(2**63) <= value < 2**63
        case str():
            return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
        case list():
            return all(map(on_wire, value))
        case dict():
            return all(map(on_wire, value.values()))
    return True


@settings(max_examples=60)
@given(MESSAGES)
def test_any_message_can_be_wrapped(raw: RawMessage) -> None:
    """Nothing that a producer can put into a message stops it from being moved (faults 9, 12)."""
    headers: Any = wrap_raw(raw)
    moved = replace(raw, headers=headers, exchange="leveret.dlx", routing_key="suspect")

    back = unwrap_raw(moved)

    assert encode_table(headers)
    assert is_wrapped(moved)
    assert back.body is raw.body
    assert len(back.headers) <= len(raw.headers)
    assert (back.routing_key, back.exchange) == (raw.routing_key, raw.exchange)


@settings(max_examples=60)
@given(MESSAGES.filter(lambda raw: all(map(on_wire, raw.headers.values()))), ALL_RULES)
def test_a_moved_message_decodes_as_it_would_have(raw: RawMessage, rules: Any) -> None:
    """The way through suspect changes neither event nor tenant, nor why it is parked (faults 16, 70)."""
    back = unwrap_raw(replace(raw, headers=wrap_raw(raw), queue="leveret.suspect"))

    before, after = attempt(raw, rules), attempt(back, rules)

    if isinstance(before, BadEvent):
        assert isinstance(after, BadEvent)
        assert after.reason == before.reason
    else:
        assert after == before


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("acme", "acme"),
        (b"acme", "acme"),
        (b"\xff", "ÿ"),
        ("half \ud800", "half ?"),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        (float("nan"), ["nan"]),
        (None, None),
        (Decimal("1.10"), ["Decimal('1.10')"]),
        ({"a": [1, {"b": b"x"}]}, ["{'a': [1, {'b': b'x'}]}"]),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05Z"),
        (2**70, ["1180591620717411303424"]),
        ("x" * 9000, "x" * 8192),
    ],
)
def test_header_values_are_kept_as_far_as_anybody_reads_them(value: object, kept: object) -> None:
    """Text, numbers, truth values stay; bytes and times become text; the rest is only shown (fault 12)."""
    raw = message(headers={"tenant": "acme", "x": value})

    assert unwrap_raw(replace(raw, headers=wrap_raw(raw))).headers == {"tenant": "acme", "x": kept}


def test_the_queue_survives_the_wrapper() -> None:
    """A source's message keeps its inbox, by which its tenant is found: never cross-tenant (fault 16)."""
    raw = message(queue="leveret.inbox.shop")

    back = unwrap_raw(replace(raw, headers=wrap_raw(raw), queue="leveret.suspect"))

    assert back.queue == "leveret.inbox.shop"
    assert back.redelivered


def test_a_wrapper_from_before_the_queue_was_kept_is_read() -> None:
    """Without the queue inside, the queue of the message counts: rolling upgrades."""
    outer = orjson.loads(str(wrap_raw(message())["leveret-raw"]))
    del outer["queue"]

    back = unwrap_raw(message(headers={"leveret-raw": orjson.dumps(outer).decode()}, queue="leveret.suspect"))

    assert back.queue == "leveret.suspect"


def test_headers_that_fill_a_frame_are_cut_to_fit_into_one() -> None:
    """A producer's 128 KB of headers still leave in one frame; short ones stay (fault 12)."""
    many = {f"h{n}": "\x00" * 6000 for n in range(20)}
    raw = message(headers=many | {"tenant": "acme"})

    headers: Any = wrap_raw(raw)

    assert len(encode_table(headers)) < WRAPPED_HEADERS_BYTES + 4096
    assert unwrap_raw(replace(raw, headers=headers)).headers["tenant"] == "acme"


@pytest.mark.parametrize(
    "text", ["", "5", "[]", "{}", "not json", '{"headers":{}}', '{"headers":5}', '{"nobody":1}']
)
def test_a_forged_wrapper_is_a_bad_event(text: str) -> None:
    """A message that only resembles our wrapper is parked, not believed."""
    with pytest.raises(BadEvent):
        unwrap_raw(message(headers={"leveret-v": 1, "leveret-raw": text}))


def test_producers_cannot_wrap() -> None:
    """A producer's own ``leveret-raw`` is content like any other and does not survive as ours (fault 18)."""
    forged = message(headers={"tenant": "acme", "leveret-raw": "{}", "leveret-v": 1})

    event = decode_event(forged, RULES, NOW)

    assert isinstance(event, Event)
    assert (event.id, event.tenant) == ("ord-1", "acme")


@given(st.text(st.characters(exclude_categories=()), max_size=400))
def test_short_text_fits(text: str) -> None:
    """A content type of any characters fits into an AMQP short string, and a short one is unchanged."""
    kept = short_text(text)

    assert len(kept.encode()) <= 255
    assert text.encode("utf-8", "replace").decode().startswith(kept)
    if len(text.encode("utf-8", "replace")) <= 255:
        assert kept == text.encode("utf-8", "replace").decode()
