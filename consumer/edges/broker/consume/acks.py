"""Settle messages in few frames: those that are settled within a few milliseconds travel together.

Each ack frame is a command in the Raft log of the queue, so one frame for a run of tags saves the broker even
more work than us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from pamqp import frame
from pamqp.commands import Basic

from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, closable
from consumer.edges.broker.consume.gate import Gate
from consumer.ports import BrokerReports
from consumer.tasks import error_of

FLUSH_S = 0.005  #: longest time that acks of an unbroken run are gathered
STRAGGLER_S = 0.025  #: longest time that an ack above a gap waits for the gap to close
MOST_SENT = 50_000  #: tags remembered above a gap; beyond it this channel acks one by one


class Acks:
    """The acks of one channel. Delivery tags are valid only on their channel, and so are these acks.

    One message that stays in hand for long keeps every later run open, and all acked tags above it must be
    remembered. Beyond *most_sent* they are forgotten, and every later tag is acked by itself.
    """

    def __init__(
        self,
        channel: Channel,
        observe: BrokerReports,
        *,
        most_sent: int = MOST_SENT,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Begin without an ack.

        Args:
            channel: The channel of the messages.
            observe: Takes lost settlements.
            most_sent: Tags above a gap that are remembered.
            on_failure: Called when acks were lost by an unexpected error, while the channel is open.
        """
        self.channel = channel
        self._observe = observe
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._due: dict[int, float] = {}  #: loop time of each settled tag that is not yet sent
        self._sent: set[int] = set()  #: tags above the head that were sent one by one
        self._most_sent = most_sent
        self._singly = False  #: whether runs were given up: no tag is remembered, ``multiple`` is never set
        self._head = 0  #: every tag up to this one is settled and sent
        self._flushing: asyncio.Task[None] | None = None
        self._planned = False
        self._writing = asyncio.Lock()

    def ack(self, tag: int) -> None:
        """Settle *tag*; the ack is sent within 5 ms, or above a gap within 30 ms."""
        self._due[tag] = self._loop.time()
        self._plan()

    async def requeue(self, tag: int, *, failed: bool = False) -> None:
        """Give *tag* back to the broker now.

        Args:
            tag: Delivery tag.
            failed: Whether this return counts towards the delivery limit. From RabbitMQ 4.3 on, only
                ``basic.reject`` counts; earlier versions count both.
        """
        self._remember([tag])
        async with self._writing:
            try:
                give_back = self.channel.basic_reject if failed else self.channel.basic_nack
                with closable():
                    await give_back(tag, requeue=True, wait=False)
            except CONNECTION_ERRORS:
                self._observe.settles_lost(1)

    async def flush(self) -> None:
        """Send all acks: the unbroken run in one frame, the others one by one."""
        await self._flush(up_to=inf)

    async def _flush(self, up_to: float) -> None:
        """Send the acks of the unbroken run, and those above a gap that were settled before *up_to*.

        The frame of the run names its last unsent tag: an already acked one is unknown to the broker, which
        would close the channel.
        """
        due, last_in_run, sent = self._due, 0, 0
        while not self._singly and self._is_settled(tag := self._head + 1):
            self._sent.discard(tag)
            if due.pop(tag, None) is not None:
                last_in_run, sent = tag, sent + 1
            self._head = tag
        single = sorted(tag for tag, since in due.items() if self._singly or since <= up_to)
        for tag in single:
            del due[tag]
        self._remember(single)
        async with self._writing:  # a later run must not overtake the single acks below it
            try:
                with closable():
                    if last_in_run:
                        await self.channel.basic_ack(last_in_run, multiple=True, wait=False)
                    await self._ack_each(single)
            except CONNECTION_ERRORS:
                self._observe.settles_lost(sent + len(single))

    async def _ack_each(self, tags: Sequence[int]) -> None:
        """Ack *tags* one by one: the first by the library, which checks the channel; the others in one write.

        While one slow message is in hand, every ack is a single one: 15 us each by the library, 3 us here.
        """
        if not tags:
            return
        await self.channel.basic_ack(tags[0], wait=False)
        if len(tags) > 1:
            number = self.channel.number
            frames = [frame.marshal(Basic.Ack(delivery_tag=tag), number) for tag in tags[1:]]
            await self.channel.write_queue.put(ChannelFrame(payload=b"".join(frames), should_close=False))

    def _is_settled(self, tag: int) -> bool:
        return tag in self._due or tag in self._sent

    def _remember(self, tags: Iterable[int]) -> None:
        if self._singly:
            return
        self._sent.update(tags)
        if len(self._sent) > self._most_sent:
            self._singly = True
            self._sent.clear()

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._loop.call_later(FLUSH_S, self._start_flush)

    def _start_flush(self) -> None:
        self._planned = False
        self._flushing = self._loop.create_task(self._flush(self._loop.time() - STRAGGLER_S))
        self._flushing.add_done_callback(self._flushed)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        error = error_of(task)
        if error is not None and not self.channel.is_closed and self._on_failure is not None:
            self._on_failure(error)
        elif self._due:
            self._plan()


@dataclass(slots=True, eq=False)
class Consumer:
    """One queue, consumed over one channel."""

    queue: str
    acks: Acks
    #: By the broker: the queue was deleted, and with it our unacked messages, unless :meth:`timed_out`.
    cancelled: bool = False
    in_hand: int = 0  #: unsettled messages; counted only with *on_settled*
    on_settled: Callable[[], None] | None = None  #: called after each settled message
    leaving: bool = False  #: whether its cancellation was sent

    def handed_over(self) -> None:
        """Count a message in hand, if settled ones are reported."""
        if self.on_settled is not None:
            self.in_hand += 1

    def settled(self) -> None:
        """Stop counting a message, and report it."""
        if self.on_settled is not None:
            self.in_hand -= 1
            self.on_settled()

    def leave(self) -> None:
        """Note that its cancellation was sent."""
        self.leaving = True

    def cancel(self) -> None:
        """Note that the broker cancelled it."""
        self.cancelled = True

    def timed_out(self) -> None:
        """Note that its queue exists: the broker gives its messages out again."""
        self.cancelled = False


class ChannelTicket:
    """Settles one message, only on the channel of its arrival.

    Its bytes are given back once it is settled. If it is dropped unsettled, because its channel closed, it
    keeps them until no work on it is left.
    """

    __slots__ = ("_acks", "_consumer", "_gate", "_tag")

    def __init__(self, consumer: Consumer, gate: Gate, tag: int) -> None:
        self._acks = consumer.acks
        self._consumer = consumer
        self._gate = gate
        self._tag = tag

    def __del__(self) -> None:
        """Give its bytes back, unless that has happened."""
        self._gate.release(self._tag)

    def alive(self) -> bool:
        """Return whether the message can still be settled by us.

        A closing channel returns all of its messages to their queues, except to deleted ones.

        Source: RabbitMQ "Consumers", consumer cancellation (sent when a queue is deleted).
        """
        return not self._acks.channel.is_closed or self._consumer.cancelled

    async def ack(self) -> None:
        """Settle the message; on a dead channel only count this, as the message will come again."""
        self._acks.ack(self._tag)
        self._gate.release(self._tag)
        self._consumer.settled()

    async def requeue(self) -> None:
        """Give the message back; on a dead channel the broker has done so already."""
        await self._give_back(failed=False)

    async def reject(self) -> None:
        """Give the message back as one that failed; on a dead channel the broker has done so already."""
        await self._give_back(failed=True)

    async def _give_back(self, *, failed: bool) -> None:
        await self._acks.requeue(self._tag, failed=failed)
        self._gate.release(self._tag)
        self._consumer.settled()
