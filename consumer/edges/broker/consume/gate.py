"""Pass the messages of one channel to their consumers as the connection reads them.

Data flow: the connection's reader -> :meth:`Gate.put` -> a whole message -> the window's callback; all other
frames -> the library's queue of the channel.

The library passes each frame on through a queue to a task of the channel, which starts a task for each
message. That takes two more passes of the event loop, during which a storm's other messages run.

Source: aiormq ``Connection`` (its reader awaits ``channel.frames.put``), ``Channel._on_deliver_frame``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from consumer.edges.broker.consume.byte_budget import ByteBudget, WindowBytes

Take: TypeAlias = Callable[[DeliveredMessage], None]
"""Takes a message within the connection's reader, so it neither waits nor raises."""


class Gate:
    """Passes one channel's messages on, and keeps the charge of each by its delivery tag."""

    def __init__(self, channel: Channel, budget: ByteBudget, window: WindowBytes | None = None) -> None:
        """Put the gate between the connection's reader and *channel*; *window* counts the same bytes."""
        self.budget = budget
        self._window = WindowBytes() if window is None else window
        self._channel = channel
        self._frames = channel.frames
        self._takes: dict[str, Take] = {}  #: by consumer tag
        self._names = 0  #: consumer tags so far
        self._deliver: Basic.Deliver | None = None  #: of the message whose frames are arriving
        self._header = ContentHeader()
        self._body: list[bytes] = []
        self._left = 0  #: bytes of its body to come
        self._charges: dict[int, int] = {}
        channel.frames.put = self.put  # type: ignore[method-assign]  # all frames of the channel come this way
        self._closing = channel.closing
        self._closing.add_done_callback(lambda _: self._close())

    def name(self, queue: str, take: Take) -> str:
        """Return the tag of a new consumer of *queue*, whose messages *take* gets from now on."""
        self._names += 1
        tag = f"{queue}.{self._names}"
        self._takes[tag] = take
        return tag

    async def consume(self, queue: str, tag: str) -> None:
        """Consume *queue* by the consumer *tag*, until that is cancelled."""
        await self._channel.basic_consume(queue, _unused, no_ack=False, consumer_tag=tag)

    async def put(self, item: tuple[int, Any]) -> None:
        """Take the next frame; the header of a message waits until the message fits."""
        size, frame = item
        if isinstance(frame, Basic.Deliver):
            self._deliver = None if self._channel.is_closed else frame
        elif self._deliver is not None and isinstance(frame, ContentHeader):
            await self._begin(self._deliver, frame, size)
        elif self._deliver is not None and isinstance(frame, ContentBody):
            self._add(self._deliver, frame.value or b"")
        else:
            self._pass_on(item)

    def _pass_on(self, item: tuple[int, Any]) -> None:
        """Give a frame to the library; drop content of a channel that has closed, as nobody reads it."""
        _, frame = item
        if isinstance(frame, ContentHeader | ContentBody) and self._channel.is_closed:
            return
        if isinstance(frame, Basic.Cancel | Basic.CancelOk):
            self._takes.pop(frame.consumer_tag or "", None)
        self._frames.put_nowait(item)

    async def _begin(self, deliver: Basic.Deliver, header: ContentHeader, size: int) -> None:
        """Take the header of a message, which contains its size."""
        cost = self.budget.cost(size, header)
        await self.budget.room(cost, self._channel.connection)  # type: ignore[arg-type]  # the real one
        if self._channel.is_closed:
            self._deliver = None
            return
        self._charges[deliver.delivery_tag or 0] = cost
        self.budget.hold(cost)
        self._window.hold(cost)
        self._header, self._body, self._left = header, [], header.body_size or 0
        if not self._left:
            self._complete(deliver)

    def _add(self, deliver: Basic.Deliver, part: bytes) -> None:
        """Take a part of the body."""
        self._body.append(part)
        self._left -= len(part)
        if self._left <= 0:
            self._complete(deliver)

    def _complete(self, deliver: Basic.Deliver) -> None:
        self.budget.completed()
        body, self._deliver, self._body = b"".join(self._body), None, []
        take = self._takes.get(deliver.consumer_tag or "")
        if take is None:  # no consumer of ours: the broker keeps it until the channel closes
            self.release(deliver.delivery_tag or 0)
        else:
            take(DeliveredMessage(delivery=deliver, header=self._header, body=body, channel=self._channel))

    def charge(self, tag: int) -> int:
        """Return the charge of the message of *tag*."""
        return self._charges.get(tag, 0)

    def release(self, tag: int) -> None:
        """Give back the charge of *tag*; a second call does nothing."""
        cost = self._charges.pop(tag, None)
        if cost is not None:
            self.budget.give_back(cost, whole=True)
            self._window.give_back(cost)

    def _close(self) -> None:
        """Give back the charge of a message that has not arrived as a whole; the broker has it again."""
        deliver, self._deliver, self._body = self._deliver, None, []
        cost = None if deliver is None else self._charges.pop(deliver.delivery_tag or 0, None)
        if cost is not None:
            self.budget.give_back(cost, whole=False)
            self._window.give_back(cost)


async def _unused(_message: DeliveredMessage) -> None:
    """Take nothing: no message of a channel with a gate comes this way."""
