"""Consume from our queues: every window has a channel and a prefetch of its own.

A consumer callback only hands the message over. Losing a channel cancels its callbacks and would kill
requests in flight if they ran inside of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aio_pika.abc import AbstractConnection
from aiormq.abc import ChannelFrame, DeliveredMessage
from aiormq.channel import Channel
from aiormq.connection import Connection
from pamqp.commands import Basic

from consumer.core.fairness.prefetch import Prefetch
from consumer.core.model import RawMessage
from consumer.edges.broker.acks import Acks
from consumer.edges.broker.budget import Budget, Gate
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    close_reason,
    closed,
    open_channel,
    underlay,
)
from consumer.edges.broker.wire.frames import UNREADABLE
from consumer.ports import BrokerReports, Incoming, Source

REOPEN_FIRST_S = 0.2
REOPEN_MAX_S = 5.0
LOOK_S = 0.5
UNBOUNDED = 2**63  #: bytes
CALL_S = 15.0  #: a call that the broker does not answer for longer closes the channel, which is opened anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some queues that are consumed alike."""

    source: Source
    queues: tuple[str, ...]
    prefetch: int  #: unacked messages per queue, at most
    room_bytes: float | None = None  #: for the messages of one queue; None: *prefetch* whatever they take
    counted: bool = True  #: the broker counts returns in ``x-delivery-count``; classic queues do not


@dataclass(slots=True, eq=False)
class Consumer:
    """One queue, consumed over one channel."""

    queue: str
    acks: Acks
    cancelled: bool = False  #: by the broker: its queue was deleted, and with it what we hold unacked
    in_hand: int = 0  #: handed over and not settled; counted where somebody is to be told
    on_settled: Callable[[], None] | None = None  #: told of each settled message; None where nobody asks
    leaving: bool = False  #: the broker was asked to send nothing more

    def handed_over(self) -> None:
        """Count a message in hand, where somebody is to be told of its end."""
        if self.on_settled is not None:
            self.in_hand += 1

    def settled(self) -> None:
        """Count a message that is in hand no more, and report it."""
        if self.on_settled is not None:
            self.in_hand -= 1
            self.on_settled()

    def leave(self) -> None:
        """The broker is asked to send nothing more."""
        self.leaving = True

    def cancel(self) -> None:
        """The broker deleted the queue."""
        self.cancelled = True


class ChannelTicket:
    """Settles one message on the channel that it came by, and on no other.

    Its bytes are given back once it is settled. One that is dropped unsettled, since its channel died, keeps
    them until nobody works on it any more.
    """

    __slots__ = ("_acks", "_consumer", "_gate", "_tag")

    def __init__(self, consumer: Consumer, gate: Gate, tag: int) -> None:
        self._acks = consumer.acks
        self._consumer = consumer
        self._gate = gate
        self._tag = tag

    def __del__(self) -> None:
        """Give its bytes back, where nothing did before."""
        self._gate.release(self._tag)

    def alive(self) -> bool:
        """Whether the message is still ours to bring to an end.

        A channel that closes gives back all that came by it, but for what came from a queue that is gone.

        Source: RabbitMQ "Consumers", consumer cancellation (told when a queue is deleted).
        """
        return not self._acks.channel.is_closed or self._consumer.cancelled

    async def ack(self) -> None:
        """Settle it; on a dead channel: count, it will come again."""
        self._acks.ack(self._tag)
        self._gate.release(self._tag)
        self._consumer.settled()

    async def requeue(self) -> None:
        """Give it back; on a dead channel the broker has done so already."""
        await self._acks.requeue(self._tag)
        self._gate.release(self._tag)
        self._consumer.settled()


@dataclass(slots=True)
class WindowReader:
    """Keeps one window open on the current connection."""

    window: Window
    observe: BrokerReports
    deliver: Callable[[Source, Incoming], None]
    on_missing: Callable[[], None]  #: a queue is not there, or its consumer was cancelled
    wanted: Callable[[], bool]  #: whether to consume now; asked at each :meth:`follow`
    consuming: bool = False
    budget: Budget = field(default_factory=lambda: Budget(UNBOUNDED))
    _prefetch: Prefetch = field(init=False)
    _acks: Acks | None = None
    _gate: Gate | None = None
    _consumers: dict[str | None, Consumer] = field(default_factory=dict)  #: by tag
    _cancelled: asyncio.Event | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)  #: of who consumes or leaves off, per channel
    _following: asyncio.Task[None] | None = None
    _resizing: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        """Begin with what fits, whatever comes."""
        self._prefetch = Prefetch(self.window.prefetch, self.window.room_bytes)

    async def run(self, connection: AbstractConnection) -> None:
        """Consume until the connection closes; a broken channel is opened anew."""
        transport, pause_s = underlay(connection), REOPEN_FIRST_S
        while not transport.is_closed:
            try:
                self._take_over(await open_channel(connection, confirms=False))
                await self._follow()
                pause_s = REOPEN_FIRST_S
                await self._until_broken(transport)
            except CONNECTION_ERRORS as error:
                self.observe.warned("window.failed", source=self.window.source.value, detail=str(error)[:300])
            finally:
                self.consuming = False
            self.on_missing()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, REOPEN_MAX_S)

    async def follow(self) -> None:
        """Consume or leave off, as is wanted now; once it left off, nothing more is handed over.

        The channel stays open, so that what came by it can be settled. One that broke is opened anew by
        :meth:`run`, which then does as is wanted.
        """
        try:
            await self._follow()
        except CONNECTION_ERRORS:
            return

    async def flush(self) -> None:
        """Return once the broker has everything that was settled: its answer stands behind the acks."""
        acks = self._acks
        if acks is not None and not acks.channel.is_closed:
            await acks.flush()
            with self.budget.lifted():
                await acks.channel.basic_qos(prefetch_count=self._prefetch.value, timeout=5)

    def _take_over(self, channel: Channel) -> None:
        self._acks, cancelled = Acks(channel, self.observe), asyncio.Event()
        self._gate = Gate(channel, self.budget)
        self._turn = asyncio.Lock()
        self._cancelled = cancelled
        consumers = self._consumers = {}

        def take_note(cancel: Basic.Cancel) -> None:
            if cancel.consumer_tag in consumers:
                consumers[cancel.consumer_tag].cancel()
            cancelled.set()

        channel.on_consumer_cancel_callbacks.add(take_note)

    async def _follow(self) -> None:
        """Do what is wanted last: who waits here for another's turn asks after it.

        Each channel has turns of its own, so a call that hangs on a dead wire holds up no later channel.
        """
        acks, turn = self._acks, self._turn
        if acks is None:
            return
        async with turn:
            channel = acks.channel
            if channel.is_closed or acks is not self._acks:
                return
            if not self.wanted():
                self.consuming = False
                await self._leave_off(channel)
            elif not channel.consumers:
                await self._consume(acks)

    async def _leave_off(self, channel: Channel) -> None:
        """Consume no more; return once all that the broker had sent before has come.

        All consumers are cancelled at once: with one after the other, those that are left would go on to be
        filled. Behind messages that wait for memory the answers take their time, and are waited for.
        """
        tags = list(channel.consumers)
        if not tags:
            return
        for tag in tags:
            self._consumers[tag].leave()
        frames = [Basic.Cancel(consumer_tag=tag) for tag in tags]
        async with channel.lock:
            await channel.write_queue.put(ChannelFrame.marshall(channel.number, frames))
            for _ in tags:
                await self._answer(channel)

    async def _answer(self, channel: Channel) -> None:
        """Wait for one answer; a broker that gives none while nothing holds it up loses the channel."""
        waited_s = 0.0
        while waited_s < CALL_S:
            try:
                async with asyncio.timeout(LOOK_S):
                    await channel.rpc_frames.get()
            except TimeoutError:
                waited_s += 0.0 if self.budget.is_waiting() else LOOK_S
            else:
                channel.rpc_frames.task_done()
                return
        await channel.close(timeout=LOOK_S)
        raise TimeoutError("the broker does not answer basic.cancel")

    async def _consume(self, acks: Acks) -> None:
        """Consume from every queue, once all of them are there.

        One that is missing closes the channel, and with it the acks of what the others had delivered: so
        all are looked for before the first consumer. A prefetch is per consumer: a window of one message
        waits until the one that came by a consumer before is settled.
        """
        self.consuming = any(consumer.in_hand > 0 for consumer in self._consumers.values())
        if self.consuming:
            return
        for queue in self.window.queues:
            await acks.channel.queue_declare(queue, passive=True, timeout=CALL_S)
        await self._add_consumers(acks)

    async def _add_consumers(self, acks: Acks) -> None:
        told = self._settled if self.window.prefetch == 1 else None
        await acks.channel.basic_qos(prefetch_count=self._prefetch.value, timeout=CALL_S)
        for queue in self.window.queues:
            consumer = Consumer(queue, acks, on_settled=told)
            take = self._callback(consumer)
            answer = await acks.channel.basic_consume(queue, take, no_ack=False, timeout=CALL_S)
            self._consumers[answer.consumer_tag] = consumer
        self.consuming = True

    def _came(self, size_bytes: int) -> None:
        """Follow the sizes of what comes."""
        now = asyncio.get_running_loop().time()
        if self._prefetch.add(size_bytes, now) and (self._resizing is None or self._resizing.done()):
            self._resizing = asyncio.get_running_loop().create_task(self._resize())

    async def _resize(self) -> None:
        """Consume anew with another prefetch: the broker knows no other way to change it.

        Source: RabbitMQ "Consumer Prefetch" (per consumer), "Quorum Queues" (no global QoS).
        """
        acks, turn = self._acks, self._turn
        if acks is None:
            return
        try:
            async with turn:
                channel = acks.channel
                if channel.is_closed or acks is not self._acks or not channel.consumers:
                    return
                before = self._prefetch.value
                after = self._prefetch.change(asyncio.get_running_loop().time())
                await self._leave_off(channel)
                if self.wanted():
                    await self._add_consumers(acks)
                else:
                    self.consuming = False
            source = self.window.source.value
            self.observe.said("window.resized", source=source, before=before, prefetch=after)
        except CONNECTION_ERRORS:
            return

    def _settled(self) -> None:
        """Go on where a consumer waits for that."""
        if self._acks is not None and not self._acks.channel.consumers:
            self._following = asyncio.get_running_loop().create_task(self.follow())

    async def _until_broken(self, transport: Connection) -> None:
        if self._acks is None or self._cancelled is None:
            return
        channel, cancelled = self._acks.channel, self._cancelled
        waiting = asyncio.ensure_future(cancelled.wait())
        closing = asyncio.ensure_future(closed(channel, transport))
        try:
            await asyncio.wait({waiting, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            closing.cancel()
        source = self.window.source.value
        if cancelled.is_set():
            self.observe.warned("window.cancelled", source=source)
            await channel.close(timeout=5)
        elif not transport.is_closed:
            self.observe.warned("window.closed", source=source, detail=await close_reason(channel))

    def _callback(self, consumer: Consumer) -> Callable[[DeliveredMessage], Any]:
        deliver, source, queue = self.deliver, self.window.source, consumer.queue
        gate = self._gate
        if gate is None:
            raise RuntimeError("a consumer without a channel")
        counted = self.window.counted

        async def take(message: DeliveredMessage) -> None:
            tag = message.delivery_tag or 0
            size_bytes = gate.ticketed(tag)
            consumer.handed_over()
            ticket = ChannelTicket(consumer, gate, tag)
            if consumer.leaving and self.budget.is_over():
                await ticket.requeue()
                return
            deliver(source, Incoming(raw_message(message, queue, counted=counted), ticket))
            self._came(size_bytes)

        return take


def raw_message(message: DeliveredMessage, queue: str, *, counted: bool = True) -> RawMessage:
    """Translate a message of the library into the core's words.

    Args:
        message: As it came.
        queue: Where it came from.
        counted: That queue counts returns; otherwise the header that says so is a producer's.
    """
    delivery: Any = message.delivery  # the three kinds that carry a message have the same fields
    properties = message.header.properties
    headers: Mapping[str, Any] = properties.headers or {}
    stamp = properties.timestamp
    # the broker sets it from the first return on; before that it is the producer's word
    count = headers.get("x-delivery-count", 0) if delivery.redelivered and counted else 0
    return RawMessage(
        body=message.body,
        headers=headers,
        exchange=delivery.exchange or "",
        routing_key=delivery.routing_key or "",
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        message_id=properties.message_id,
        type=properties.message_type,
        timestamp_s=None if stamp is None else stamp.timestamp(),
        expiration=properties.expiration,
        app_id=properties.app_id,
        correlation_id=properties.correlation_id,
        queue=queue,
        redelivered=bool(delivery.redelivered),
        delivery_count=count if isinstance(count, int) else 0,
        fault=headers.get(UNREADABLE),
    )
