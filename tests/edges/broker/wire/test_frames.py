"""Header tables in frames: read as the library reads them, and refused before they cost much."""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal

import aiormq.connection
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode, encode
from pamqp.body import ContentBody
from pamqp.frame import marshal

from consumer.edges.broker.connection import connect
from consumer.edges.broker.wire import frames

FRAME_BYTES = 120_000  #: a content header is one frame, of 131,072 bytes at most

NAMES = st.text(max_size=20).filter(lambda name: len(name.encode()) < 128)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, width=32)
    | st.text(max_size=40)
    | st.binary(max_size=40).map(bytearray)
    | st.decimals(0, 10_000, places=2)
    | st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)).map(
        lambda at: at.replace(microsecond=0, tzinfo=UTC)
    ),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=30,
)


def sized(data: bytes) -> bytes:
    """Return *data* behind its length."""
    return struct.pack(">I", len(data)) + data


def entry(key: str, kind: bytes, value: bytes) -> bytes:
    """Return one entry of a table."""
    return encode.short_string(key) + kind + value


def array(part: bytes, count: int) -> bytes:
    """Return a table with an array of *count* times *part*."""
    return sized(entry("h", b"A", sized(part * count)))


def nested(depth: int) -> bytes:
    """Return *depth* tables within each other, around a void value."""
    value = entry("v", b"V", b"")
    for _ in range(depth):
        value = entry("t", b"F", sized(value))
    return sized(value)


HOSTILE = {
    "voids": array(b"V", FRAME_BYTES),
    "booleans": array(b"t\x01", FRAME_BYTES // 2),
    "strings": array(b"S" + sized(b""), FRAME_BYTES // 5),
    "tables": array(b"F" + sized(b""), FRAME_BYTES // 5),
    "arrays": array(b"A" + sized(b""), FRAME_BYTES // 5),
    "decimals": array(b"D\xff\xff\xff\xff\xff", FRAME_BYTES // 6),
    "times": array(b"T" + bytes(7) + b"\x01", FRAME_BYTES // 9),
    "bad times": array(b"T" + b"\xff" * 8, FRAME_BYTES // 9),
    "keys": sized(b"".join(entry(f"{n:05x}", b"V", b"") for n in range(FRAME_BYTES // 7))),
    "one key": sized(entry("", b"V", b"") * (FRAME_BYTES // 2)),
    "long keys": sized(b"".join(entry(f"{n:0250x}", b"V", b"") for n in range(FRAME_BYTES // 252)) * 9),
    "depth": nested(FRAME_BYTES // 7),
    "voids in tables": array(b"F" + sized(entry("v", b"A", sized(b"V" * 90))), FRAME_BYTES // 103),
}


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_tables_are_read_as_the_library_reads_them(table: dict[str, object]) -> None:
    """Fault 12: types, order, nesting; only the cost is another."""
    data = encode.field_table(table)  # type: ignore[arg-type]  # these are AMQP field values

    assert frames.table(data) == decode.field_table(data)
    assert frames.table(data + b"rest") == (len(data), decode.field_table(data)[1])


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Fault 85: where the library cannot read on, neither do we, and nothing else is raised."""
    end, found = frames.table(sized(data))

    assert end == len(data) + 4
    try:
        theirs = decode.field_table(sized(data))[1]
    except (ValueError, KeyError, IndexError, OverflowError, OSError, ArithmeticError):
        return
    assert frames.UNREADABLE in found or repr(found) == repr(theirs)


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_costly_table_is_refused_at_the_cost_of_a_harmless_one(data: bytes) -> None:
    """Fault 85: 120 kB of anything cost no more than three times the largest table that is read."""
    largest = array(b"D\x02\0\0\x01\0", frames.MAX_VALUES - 1)

    _, found = frames.table(data)

    assert list(found) == [frames.UNREADABLE]
    assert frames.UNREADABLE not in frames.table(largest)[1]
    assert cost_s(data) < 3 * cost_s(largest)


def test_a_table_of_many_bytes_and_few_values_is_read() -> None:
    """Fault 12: 128 kB of headers, a table of depth 200, are no fault."""
    long = sized(entry("text", b"S", sized(b"x" * 128_000)))

    assert frames.table(long)[1] == {"text": "x" * 128_000}
    assert frames.UNREADABLE not in frames.table(nested(200))[1]
    assert "nested deeper" in str(frames.table(nested(300))[1])


@pytest.mark.parametrize(
    "data",
    [
        sized(entry("a", b"?", b"")),
        sized(entry("a", b"S", struct.pack(">I", 99) + b"x")),
        sized(entry("a", b"F", struct.pack(">I", 2**32 - 1))),
        sized(entry("a", b"l", b"short")),
        sized(b"\x05abc"),
        sized(b"\x01\xffV"),
        struct.pack(">I", 1_000) + entry("a", b"V", b""),
    ],
    ids=["type", "string", "table", "number", "key", "key that is no UTF-8", "whole"],
)
def test_a_table_that_breaks_off_is_refused(data: bytes) -> None:
    """Faults 9, 85: the connection outlives it, and the entry contains the reason."""
    assert list(frames.table(data)[1]) == [frames.UNREADABLE]


async def test_a_flood_of_frames_gives_way_to_others() -> None:
    """Fault 85: arrived data is read for 10 ms at a time; others have their turns."""
    reader = asyncio.StreamReader()
    count = 50_000
    reader.feed_data(marshal(ContentBody(b"x"), 1) * count)
    receiver = frames.PacedReceiver(reader)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    waiting = asyncio.ensure_future(others())
    for _ in range(count):
        await receiver.get_frame()
    waiting.cancel()

    assert turns >= 3
    assert turns < count / 10


def test_the_library_reads_by_our_rules() -> None:
    """A module that connects has imported ``connect``, and with it the bounds of reading."""
    assert connect.__name__ in sys.modules
    assert aiormq.connection.FrameReceiver is frames.PacedReceiver
    assert decode.METHODS["table"] is frames.table
    assert frames.table(array(b"D\x02\0\0\0\x05", 1))[1] == {"h": [Decimal("0.05")]}


def cost_s(data: bytes) -> float:
    """Return the processor time of one look at a table: the least of five, as others only add to it."""
    return min(_once_s(data) for _ in range(5))


def _once_s(data: bytes) -> float:
    began = time.thread_time()
    frames.table(data)
    return time.thread_time() - began
