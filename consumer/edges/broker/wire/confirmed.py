"""Publish on a channel with confirms, at less than half of the library's cost.

Data flow: Publication -> frames, gathered for a moment -> the connection's write queue; the broker's confirm
-> the library's reader -> the future that this module registered.

The library's ``basic_publish`` holds a lock across its awaits, so that the n-th message written is the one
with the n-th delivery tag. Here a publish takes its tag and its place among the frames in one step without an
await, which needs no lock. Measured side by side with 64 unconfirmed: 87 us of CPU for a publish with
``basic_publish``, 42 us here, each written by itself. Frames that are written together also wake the broker
less often.

Source: aiormq ``Channel.basic_publish`` (what it registers, and when); RabbitMQ "Consumer Acknowledgements
and Publisher Confirms" (tags count from 1 on each channel).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, TypeAlias

from aiormq.abc import ChannelFrame, ConfirmationFrameType
from aiormq.channel import Channel
from aiormq.exceptions import ChannelInvalidStateError
from pamqp import frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from consumer.core.errors import FrameTooLarge
from consumer.edges.broker.wire.content_header import content_header
from consumer.ports import Publication

METHODS_KEPT = 1024  #: encoded ``basic.publish`` frames in the cache: rungs x due queues, and some more
WRITE_BYTES = 512 * 1024  #: size of one write; the socket takes it before the next frames are encoded
FRAME_OVERHEAD = 8  #: bytes of a frame beside its payload
LONGEST_ID = "0" * 40  #: stands for a message id of ours when only the size counts
GATHER_S = 0.005  #: longest time that a publish waits for others to be written with it


Unconfirmed: TypeAlias = dict["asyncio.Future[ConfirmationFrameType]", float]
"""Publishes without a confirm, oldest first, each with the loop time of its beginning."""


class Confirms:
    """Publishes on one channel with confirms. Nothing else may publish on that channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._loop = asyncio.get_running_loop()
        drop_bodies(channel)
        self._unconfirmed: dict[int, asyncio.Future[ConfirmationFrameType]] = {}  #: by delivery tag
        self._unwritten: deque[Iterator[bytes]] = deque()  #: frames to write, in the order of their tags
        self._planned = False
        self._closing = channel.closing
        self._closing.add_done_callback(lambda _: self._abandon())

    def abandon(self, confirm: asyncio.Future[ConfirmationFrameType], on_late: Callable[[], None]) -> None:
        """End one publish without its confirm, on a channel that goes on.

        Args:
            confirm: Of the publish, which then raises ``ChannelInvalidStateError``.
            on_late: Called if the confirm comes after all.
        """
        tag = next((tag for tag, each in self._unconfirmed.items() if each is confirm), None)
        if tag is None or confirm.done():
            return
        late: asyncio.Future[ConfirmationFrameType] = self._loop.create_future()

        def came(late: asyncio.Future[ConfirmationFrameType]) -> None:
            if not late.cancelled() and late.exception() is None:
                on_late()

        late.add_done_callback(came)
        self.channel.confirmations[tag] = late
        confirm.set_exception(ChannelInvalidStateError("the broker did not confirm it in time"))

    async def publish(
        self, publication: Publication, message_id: str, account: Unconfirmed | None = None
    ) -> float:
        """Publish persistent, and mandatory if *publication* is; return the seconds until the confirm.

        If another message with the same id is unconfirmed, the publish waits for that confirm first.

        Args:
            publication: The message.
            message_id: Its id.
            account: Contains the publish until it is confirmed.

        Raises:
            PublishError: the broker returned it, as no queue is bound for its routing key.
            DeliveryError: the broker answered with a nack.
            ChannelInvalidStateError: the channel is closed, or closed before the confirm.
            FrameTooLarge: the headers do not fit into one frame; nothing was written.
        """
        channel = self.channel
        returned_as = channel.message_id_delivery_tag
        if message_id in returned_as:
            await self._own_turn(message_id)
        if channel.is_closed:
            raise ChannelInvalidStateError("the channel is closed")
        frames = _frames(channel, publication, message_id)
        channel.delivery_tag += 1
        tag, began = channel.delivery_tag, self._loop.time()
        confirm = channel.confirmations[tag] = self._loop.create_future()
        returned_as[message_id] = tag
        self._unconfirmed[tag] = confirm
        if account is not None:
            account[confirm] = began
        self._unwritten.append(frames)
        if not self._planned:
            self._planned = True
            self._loop.call_later(GATHER_S, self._write)
        try:
            await confirm
        finally:
            del self._unconfirmed[tag]
            if account is not None:
                del account[confirm]
            if returned_as.get(message_id) == tag:
                del returned_as[message_id]
        return self._loop.time() - began

    async def _own_turn(self, message_id: str) -> None:
        """Return once no publish with this id is unconfirmed.

        A return identifies its message only by this id, and a producer may use one id for two events: with
        both unconfirmed, the return of one would count for the other.
        """
        while (tag := self.channel.message_id_delivery_tag.get(message_id)) is not None:
            await asyncio.wait({self._unconfirmed[tag]})

    def _write(self) -> None:
        """Pass a batch of frames to the connection; the next one follows when the socket has taken it.

        While the connection is blocked its queue stays full, so this tries again later.
        """
        if self.channel.is_closed:
            return
        queue = self.channel.write_queue
        if queue.full():
            self._loop.call_later(GATHER_S, self._write)
            return
        taken: asyncio.Future[None] = self._loop.create_future()
        taken.add_done_callback(lambda _: self._go_on())
        queue.put_nowait(ChannelFrame(payload=self._batch(), should_close=False, drain_future=taken))

    def _batch(self) -> bytes:
        """Return the next frames, encoded only now: no body is ever in memory twice as a whole."""
        frames, size, unwritten = [], 0, self._unwritten
        while unwritten and size < WRITE_BYTES:
            for frame_bytes in unwritten[0]:
                frames.append(frame_bytes)
                size += len(frame_bytes)
                if size >= WRITE_BYTES:
                    break
            else:
                unwritten.popleft()
        return b"".join(frames)

    def _go_on(self) -> None:
        self._planned = bool(self._unwritten)
        if self._planned:
            self._write()

    def _abandon(self) -> None:
        """End every publish that is unconfirmed when the channel closes."""
        for confirm in list(self.channel.confirmations.values()):
            if not confirm.done():
                confirm.set_exception(ChannelInvalidStateError("the channel closed before the confirm"))


def drop_bodies(channel: Channel) -> None:
    """Discard all bodies that arrive on *channel*: they belong to returned messages and are never read."""
    frames = channel.frames

    async def put(item: tuple[int, Any]) -> None:
        if isinstance(item[1], ContentHeader):
            item[1].body_size = 0
        if not isinstance(item[1], ContentBody):
            frames.put_nowait(item)

    frames.put = put  # type: ignore[method-assign]  # all frames of the channel come this way


def _frames(channel: Channel, publication: Publication, message_id: str) -> Iterator[bytes]:
    """Return the frames of a message; method and header are encoded at once, as they may be invalid.

    Raises:
        FrameTooLarge: the header is longer than a frame. The broker would close the connection for it.

    Source: AMQP 0-9-1, 2.3.5 and 4.2.3 (a frame above the negotiated size is a connection error).
    """
    number, body, frame_max = channel.number, publication.body, frame_max_of(channel)
    size = frame_max - FRAME_OVERHEAD
    head = (
        _method(publication.exchange, publication.routing_key, number, mandatory=publication.mandatory),
        content_header(publication, message_id, number),
    )
    if len(head[1]) > frame_max:
        raise FrameTooLarge(len(head[1]) - frame_max, frame_max)
    parts = (frame.marshal(ContentBody(body[at : at + size]), number) for at in range(0, len(body), size))
    return chain(head, parts)


def frame_max_of(channel: Channel) -> int:
    """Return the largest size of a frame in bytes that the connection of *channel* negotiated."""
    return channel.max_content_size + FRAME_OVERHEAD


def demand_fit(channel: Channel, publication: Publication) -> None:
    """Check that *publication* can be published on *channel*.

    Raises:
        FrameTooLarge: its headers do not fit into one frame.
    """
    _frames(channel, publication, publication.message_id or LONGEST_ID)


@lru_cache(METHODS_KEPT)
def _method(exchange: str, routing_key: str, channel_number: int, *, mandatory: bool) -> bytes:
    method = Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    return frame.marshal(method, channel_number)
