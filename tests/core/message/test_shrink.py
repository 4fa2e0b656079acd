"""Headers that do not fit into one frame give up history first, and nothing that a delivery needs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.message.delivery import DeliveryMessage, headers_of, read_delivery
from consumer.core.message.parked import ParkNote, delivery_entry_headers, raw_entry_headers, read_entry
from consumer.core.message.shrink import LEFT_OUT, shrunk, size_of
from consumer.core.model import ParkReason, RawMessage
from tests.support.builders.deliveries import deliveries

NOTE = ParkNote(reason=ParkReason.TOO_LARGE, detail="its headers are long", at=1.0, ttl_s=60.0)
WIDE = st.dictionaries(st.text(min_size=1, max_size=40), st.text(max_size=400), max_size=20)


def read(headers: dict[str, object], body: bytes = b"") -> RawMessage:
    """A message of ours with these headers."""
    return RawMessage(
        body=body, headers=headers, exchange="x", routing_key="k", content_type="application/json"
    )


@given(deliveries(), st.integers(1, 400))
def test_a_delivery_message_gives_up_only_remembered_attempts(
    message: DeliveryMessage, excess_bytes: int
) -> None:
    """It becomes small enough, or nothing is left to give up; the count of attempts stays."""
    headers = headers_of(message)
    smaller = shrunk(headers, excess_bytes)
    if smaller is None:
        return
    assert size_of(smaller) <= size_of(headers) - excess_bytes
    again = read_delivery(read(smaller, message.event.body))
    before = read_delivery(read(headers, message.event.body))
    kept = len(again.attempts)
    assert again.attempts == before.attempts[len(before.attempts) - kept :]
    assert again.made_in_all == before.made_in_all
    assert replace(again, attempts=(), earlier=None) == replace(before, attempts=(), earlier=None)


@given(WIDE, st.integers(1, 6_000))
def test_an_entry_gives_up_the_longest_headers_of_its_producer(
    headers: dict[str, str], excess_bytes: int
) -> None:
    """It becomes small enough if that is possible, stays readable, and names that it is not whole."""
    raw = replace(read(dict(headers), b"1"), queue="leveret.lane.00")
    entry = raw_entry_headers(raw, NOTE)
    smaller = shrunk(entry, excess_bytes)
    if smaller is None:
        return
    assert size_of(smaller) <= size_of(entry) - excess_bytes
    again = read_entry(read(smaller, b"1"))
    assert again.raw is not None
    left = set(headers) - set(again.raw.headers)
    assert not left or again.detail.endswith(LEFT_OUT)
    assert again.id == str(entry["leveret-entry"])


@given(deliveries())
def test_the_smallest_entry_fits_the_smallest_frame(message: DeliveryMessage) -> None:
    """Attributes and history of any length leave an entry that a frame of 4,096 bytes takes."""
    event = replace(message.event, extras={"x": "y" * 30_000}, trace={"traceparent": "z" * 9_000})
    single = replace(message, event=event, targets=message.targets[:1])
    entry = delivery_entry_headers(single, replace(NOTE, detail="d" * 1_000))
    smaller = shrunk(entry, size_of(entry) - 3_000)

    assert smaller is not None
    again = read_entry(read(smaller))
    assert again.detail.endswith(LEFT_OUT)
    assert again.reason is ParkReason.TOO_LARGE


def test_what_a_delivery_needs_is_never_given_up() -> None:
    """None: the caller parks it."""
    assert shrunk({"leveret-v": 1, "leveret-event": "a" * 5_000}, 10) is None
    assert shrunk({"leveret-v": 1, "leveret-extras": "a" * 5_000}, 10) is None
