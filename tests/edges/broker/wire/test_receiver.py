"""Our reader of frames against the library's: the same frames and the same kinds of ends for any stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from aiormq.connection import ReceivedFrame
from aiormq.exceptions import AMQPConnectionError
from hypothesis import given
from hypothesis import strategies as st
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.frame import marshal
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from consumer.edges.broker.wire import frames

[LibraryReceiver, *_] = frames.PacedReceiver.__bases__

TEXTS = st.text(max_size=20)
FRAMES = st.one_of(
    st.builds(ContentBody, st.binary(min_size=1, max_size=300)),
    st.builds(Heartbeat),
    st.builds(
        Basic.Deliver,
        consumer_tag=TEXTS,
        delivery_tag=st.integers(1, 2**63 - 1),
        redelivered=st.booleans(),
        exchange=st.just("leveret.events"),
        routing_key=TEXTS,
    ),
    st.builds(
        ContentHeader,
        body_size=st.integers(0, 2**40),
        properties=st.builds(
            Basic.Properties, message_id=TEXTS, headers=st.dictionaries(TEXTS, TEXTS, max_size=3)
        ),
    ),
)
STREAMS = st.lists(FRAMES, max_size=6).map(lambda some: b"".join(marshal(each, 7) for each in some))
BROKEN = st.one_of(st.just(b""), st.binary(max_size=20), st.just(b"AMQP\x00\x00\x09\x01"))


async def read(receiver: frames.PacedReceiver, pieces: Sequence[bytes]) -> list[object]:
    """Feed *pieces* one by one; return all frames, and the kind of error at the end."""
    found: list[object] = []

    async def feed() -> None:
        for piece in pieces:
            receiver.reader.feed_data(piece)
            await asyncio.sleep(0)
        receiver.reader.feed_eof()

    feeding = asyncio.create_task(feed())
    try:
        while True:
            found.append(described(await receiver.get_frame()))
    except Exception as error:  # its kind is the result
        found.append(type(error).__name__)
    await feeding
    return found


def described(frame: ReceivedFrame) -> tuple[object, ...]:
    """Return the size, the channel and the fields of a frame."""
    size, channel, content = frame
    fields = dict(content) if isinstance(content, Basic.Deliver) else getattr(content, "__dict__", {})
    if isinstance(content, ContentHeader):
        fields = {"size": content.body_size, "properties": dict(content.properties)}
    if isinstance(content, ContentBody):
        fields = {"value": content.value}
    return size, channel, type(content).__name__, str(fields)


@given(stream=STREAMS, end=BROKEN, cuts=st.lists(st.integers(0, 2_000), max_size=8))
def test_any_stream_in_any_pieces_is_read_as_the_library_reads_it(
    stream: bytes, end: bytes, cuts: list[int]
) -> None:
    """Faults 9 and 12: frames are the same wherever TCP cuts them, and an end has the library's error."""
    data = stream + end
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[one:next_] for one, next_ in pairwise(places)]

    async def both() -> tuple[list[object], list[object]]:
        ours, theirs = (
            frames.PacedReceiver(asyncio.StreamReader()),
            LibraryReceiver(asyncio.StreamReader()),
        )
        return await read(ours, pieces), await read(theirs, [data])

    ours, theirs = asyncio.run(both())
    assert ours[:-1] == theirs[:-1]
    assert (ours[-1] == theirs[-1]) or {ours[-1], theirs[-1]} == {"AMQPConnectionError", "StopAsyncIteration"}


async def test_frames_that_arrived_together_take_one_read() -> None:
    """The library reads three times for each frame."""
    reader = Counted()
    reader.feed_data(marshal(ContentBody(b"x"), 1) * 100)
    receiver = frames.PacedReceiver(reader)

    found = [await receiver.get_frame() for _ in range(100)]

    assert len(found) == 100
    assert reader.reads == 1


async def test_a_large_frame_is_joined_once() -> None:
    """A frame may come in hundreds of pieces; each is copied a few times at most."""
    reader = Counted()
    data = marshal(ContentBody(bytes(1_000_000)), 1) + marshal(ContentBody(b"next"), 1)
    receiver = frames.PacedReceiver(reader)
    reading = asyncio.create_task(receiver.get_frame())
    for start in range(0, len(data), 1_448):
        reader.feed_data(data[start : start + 1_448])
        await asyncio.sleep(0)
    _, _, large = await reading
    _, _, following = await receiver.get_frame()

    assert isinstance(large, ContentBody)
    assert isinstance(following, ContentBody)
    assert (large.value, following.value) == (bytes(1_000_000), b"next")
    assert reader.reads <= 4


async def test_a_reset_is_an_error_of_the_connection() -> None:
    """The library's reader turns each error of the socket into its own; so does ours."""
    reader = asyncio.StreamReader()
    reader.set_exception(ConnectionResetError())

    with pytest.raises(AMQPConnectionError):
        await frames.PacedReceiver(reader).get_frame()


class Counted(asyncio.StreamReader):
    """A stream that counts the reads."""

    reads = 0

    async def read(self, n: int = -1) -> bytes:
        self.reads += 1
        return await super().read(n)

    async def readexactly(self, n: int) -> bytes:
        self.reads += 1
        return await super().readexactly(n)
