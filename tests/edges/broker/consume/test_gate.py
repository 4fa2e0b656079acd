"""The gate of a channel: whole messages at once, however their bodies are cut, and their charges."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from consumer.edges.broker.consume.byte_budget import ByteBudget, WindowBytes
from consumer.edges.broker.consume.gate import Gate

HEADER_BYTES = 20  #: of each message's properties

bodies = st.lists(st.lists(st.binary(min_size=1, max_size=5), max_size=4), max_size=6)
"""Messages, each with the parts of its body."""


class FakeChannel:
    """As much of a channel as a gate uses."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        self.closing = asyncio.get_running_loop().create_future()
        self.connection = SimpleNamespace()
        self.consumed: list[tuple[str, str]] = []

    @property
    def is_closed(self) -> bool:
        return self.closing.done()

    async def basic_consume(
        self, queue: str, _callback: object, *, consumer_tag: str, **_more: object
    ) -> None:
        self.consumed.append((queue, consumer_tag))


class Gated:
    """A gate with one consumer, and the messages that it took."""

    def __init__(self, room_bytes: int = 2**40) -> None:
        self.channel = FakeChannel()
        self.budget, self.window = ByteBudget(room_bytes), WindowBytes()
        self.gate = Gate(cast(Channel, self.channel), self.budget, self.window)
        self.taken: list[DeliveredMessage] = []
        self.tag = self.gate.name("lane", self.taken.append)

    async def close(self) -> None:
        self.channel.closing.set_result(None)
        await asyncio.sleep(0)  # callbacks of a future run in the next pass


def frames(tag: str, number: int, parts: Sequence[bytes]) -> list[tuple[int, Any]]:
    """Return the frames of one message."""
    deliver = Basic.Deliver(consumer_tag=tag, delivery_tag=number, exchange="", routing_key="k")
    header = ContentHeader(body_size=sum(map(len, parts)))
    return [(9, deliver), (HEADER_BYTES, header), *((len(part), ContentBody(part)) for part in parts)]


@given(messages=bodies)
def test_whole_messages_are_taken_as_their_last_frame_is_read(messages: list[list[bytes]]) -> None:
    """Each message is there with its last frame, before any other task runs; its frames go nowhere else."""

    async def run() -> None:
        gated = Gated()
        for number, parts in enumerate(messages, 1):
            *first, last = frames(gated.tag, number, parts)
            for frame in first:
                await gated.gate.put(frame)
            assert len(gated.taken) == number - 1
            await gated.gate.put(last)
            assert len(gated.taken) == number
        assert [message.body for message in gated.taken] == [b"".join(parts) for parts in messages]
        assert [message.delivery_tag for message in gated.taken] == list(range(1, len(messages) + 1))
        assert gated.channel.frames.empty()
        for message in gated.taken:
            gated.gate.release(message.delivery_tag or 0)
        assert gated.budget.held_bytes == gated.window.held == 0

    asyncio.run(run())


@given(messages=bodies, cut=st.integers(0, 40))
def test_a_channel_that_closes_keeps_the_charge_of_whole_messages_alone(
    messages: list[list[bytes]], cut: int
) -> None:
    """Fault 88: wherever its frames end, only messages with a ticket are charged until they are dropped."""

    async def run() -> None:
        gated = Gated()
        coming = [f for number, parts in enumerate(messages, 1) for f in frames(gated.tag, number, parts)]
        for frame in coming[:cut]:
            await gated.gate.put(frame)
        await gated.close()

        charges = [gated.gate.charge(message.delivery_tag or 0) for message in gated.taken]
        assert gated.budget.held_bytes == gated.window.held == sum(charges)
        for message in gated.taken:
            gated.gate.release(message.delivery_tag or 0)
        assert gated.budget.held_bytes == gated.window.held == 0

    asyncio.run(run())


async def test_other_frames_pass_to_the_library_in_their_order() -> None:
    """Answers, and content that belongs to no delivery, are for the library."""
    gated = Gated()
    others = [(1, Basic.QosOk()), (2, Basic.GetOk(delivery_tag=1)), (3, ContentHeader(body_size=1))]
    others += [(4, ContentBody(b"x")), (5, Basic.CancelOk(consumer_tag=gated.tag))]
    for frame in others:
        await gated.gate.put(frame)

    assert [gated.channel.frames.get_nowait() for _ in others] == others
    assert gated.taken == []


async def test_a_cancelled_consumer_takes_nothing_more_and_is_charged_nothing() -> None:
    """A message for an unknown tag stays with the broker; a new consumer of the queue has another tag."""
    gated = Gated()
    await gated.gate.put((1, Basic.CancelOk(consumer_tag=gated.tag)))
    for frame in frames(gated.tag, 1, [b"late"]):
        await gated.gate.put(frame)
    assert (gated.taken, gated.budget.held_bytes) == ([], 0)

    again = gated.gate.name("lane", gated.taken.append)
    await gated.gate.consume("lane", again)

    assert again != gated.tag
    assert gated.channel.consumed == [("lane", again)]
    for frame in frames(again, 2, [b"new"]):
        await gated.gate.put(frame)
    assert [message.body for message in gated.taken] == [b"new"]


async def test_a_header_that_waits_for_room_as_its_channel_closes_is_charged_nothing() -> None:
    """Fault 88: room comes after the channel has gone; the message is the broker's again."""
    gated = Gated(room_bytes=1)
    for frame in frames(gated.tag, 1, [b"first"]):
        await gated.gate.put(frame)
    deliver, header, body = frames(gated.tag, 2, [b"second"])
    await gated.gate.put(deliver)
    waiting = asyncio.create_task(gated.gate.put(header))
    while not gated.budget.is_waiting():  # noqa: ASYNC110  its state is seen by a call only
        await asyncio.sleep(0)

    await gated.close()
    gated.gate.release(1)
    await waiting
    await gated.gate.put(body)

    assert [message.body for message in gated.taken] == [b"first"]
    assert gated.budget.held_bytes == gated.window.held == 0
    assert gated.channel.frames.empty()


async def test_content_of_a_closed_channel_is_dropped() -> None:
    """Fault 88: the broker may send a whole prefetch before it knows, and nobody would free it."""
    gated = Gated()
    first, header, body = frames(gated.tag, 1, [b"cut"])
    await gated.gate.put(first)
    await gated.gate.put(header)
    await gated.close()
    for frame in (body, *frames(gated.tag, 2, [b"late"]), (1, commands.Channel.CloseOk())):
        await gated.gate.put(frame)

    assert gated.taken == []
    assert gated.budget.held_bytes == 0
    assert [type(gated.channel.frames.get_nowait()[1]).__name__] == ["CloseOk"]
    assert gated.channel.frames.empty()
