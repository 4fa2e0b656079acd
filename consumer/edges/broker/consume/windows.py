"""Consume from our queues: every window has its own channel and prefetch.

A consumer callback only passes the message on: it runs within the connection's reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aio_pika.abc import AbstractConnection
from aiormq.abc import ChannelFrame, DeliveredMessage
from aiormq.channel import Channel
from pamqp.commands import Basic

from consumer.core.fairness.prefetch import Prefetch
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    closable,
    close_reason,
    closed,
    first_of,
    open_channel,
    underlay,
)
from consumer.edges.broker.connection.server import counts_only_failures, is_there
from consumer.edges.broker.consume.acks import Acks, ChannelTicket, Consumer
from consumer.edges.broker.consume.byte_budget import ByteBudget, WindowBytes
from consumer.edges.broker.consume.gate import Gate, Take
from consumer.edges.broker.wire.raw_message import Returns, raw_message
from consumer.ports import BrokerReports, Incoming, Source
from consumer.tasks import OwnedTasks, Step, TaskHealth, end

REOPEN_FIRST_S = 0.2
REOPEN_MAX_S = 5.0
LOOK_S = 0.5
UNBOUNDED = 2**63  #: bytes
CALL_S = 15.0  #: longest wait for an answer of the broker; then the channel is closed and opened again
FULL_S = 60.0  #: longest wait for an answer behind messages that wait for memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Queues that are consumed alike."""

    source: Source
    queues: tuple[str, ...]
    prefetch: int  #: unacked messages per queue, at most
    room_bytes: float | None = None  #: for the messages of one queue; None: *prefetch* messages of any size
    counted: bool = True  #: whether the broker counts returns in ``x-delivery-count``, as quorum queues do


@dataclass(slots=True)
class WindowReader:
    """Keeps one window open on the current connection."""

    window: Window
    observe: BrokerReports
    deliver: Callable[[Source, Incoming], None]
    on_missing: Callable[[], None]  #: called when a queue is missing, or its consumer was cancelled
    wanted: Callable[[], bool]  #: whether to consume now; called at each :meth:`follow`
    consuming: bool = False
    budget: ByteBudget = field(default_factory=lambda: ByteBudget(UNBOUNDED))
    in_hand: WindowBytes = field(default_factory=WindowBytes)  #: of the messages in hand, as they are charged
    health: TaskHealth | None = None  #: takes unexpected ends of tasks; None makes one
    _health: TaskHealth = field(init=False)
    _tasks: OwnedTasks = field(init=False)
    _prefetch: Prefetch = field(init=False)
    _acks: Acks | None = None
    _gate: Gate | None = None
    _consumers: dict[str | None, Consumer] = field(default_factory=dict)  #: by tag
    _cancelled: asyncio.Event | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)  #: for changes of consumers, one per channel
    _changing: bool = False  #: a change of the consumers is under way, or was cut: the channel is unknown
    _resizing: asyncio.Task[None] | None = None
    _timer: asyncio.TimerHandle | None = None  #: of the next change of the prefetch

    def __post_init__(self) -> None:
        """Begin with a prefetch that fits messages of any size."""
        self._prefetch = Prefetch(self.window.prefetch, self.window.room_bytes)
        self._health = self.health or TaskHealth(self.observe)
        self._tasks = OwnedTasks(self._health, lambda: self._acks is None or self._acks.channel.is_closed)

    @property
    def name(self) -> str:
        """The name of its task."""
        return f"window {self.window.source.value}"

    async def run(self, connection: AbstractConnection) -> None:
        """Consume until the connection closes; a broken channel is opened again.

        Called anew after an unexpected end, it keeps the channel with the messages in hand if it can.
        """
        transport, pause_s = underlay(connection), REOPEN_FIRST_S
        while not transport.is_closed:
            try:
                with closable():
                    await self._open(connection)
                    await self._follow()
                    self._health.began(self.name)
                    pause_s = REOPEN_FIRST_S
                    await self._until_broken(connection)
            except CONNECTION_ERRORS as error:
                source, detail = self.window.source.value, str(error)[:300]
                self.observe.faulted("window.failed", pause_s, source=source, detail=detail)
            finally:
                self.consuming = False
            self.on_missing()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, REOPEN_MAX_S)

    async def follow(self) -> None:
        """Start or stop consuming, as *wanted* returns now; after a stop no message is passed on.

        The channel stays open, so that its messages can be settled. A broken one, and one on which a change
        failed, is opened again by :meth:`run`, which then calls *wanted* too.
        """
        try:
            await self._follow()
        except CONNECTION_ERRORS:
            await self._close_changing()

    async def flush(self) -> None:
        """Return once the broker has every ack: an answer that follows the acks proves it."""
        acks = self._acks
        if acks is not None and not acks.channel.is_closed:
            await acks.flush()
            with self.budget.lifted(), closable():
                await acks.channel.basic_qos(prefetch_count=self._prefetch.value, timeout=5)

    async def _open(self, connection: AbstractConnection) -> None:
        """Open a channel, unless the last one is still of use."""
        acks = self._acks
        if acks is None or acks.channel.is_closed or underlay(connection) is not acks.channel.connection:
            self._take_over(await open_channel(connection, confirms=False))
        elif self._changing:
            await self._close_changing()
            await self._open(connection)

    async def _close_changing(self) -> None:
        """Close a channel whose consumers are unknown; the broker gives its messages out again."""
        acks = self._acks
        if self._changing and acks is not None and not acks.channel.is_closed:
            with suppress(*CONNECTION_ERRORS), closable():
                await acks.channel.close(timeout=LOOK_S)

    def _take_over(self, channel: Channel) -> None:
        self._acks, cancelled = Acks(channel, self.observe, on_failure=self._acks_failed), asyncio.Event()
        self._changing = False
        self._forget_plan()
        self._gate = Gate(channel, self.budget, self.in_hand)
        self._turn = asyncio.Lock()
        self._cancelled = cancelled
        consumers = self._consumers = {}

        def take_note(cancel: Basic.Cancel) -> None:
            if cancel.consumer_tag in consumers:
                consumers[cancel.consumer_tag].cancel()
            cancelled.set()

        channel.on_consumer_cancel_callbacks.add(take_note)

    async def _follow(self) -> None:
        """Start or stop consuming, one caller after the other; each calls *wanted* when its turn comes.

        Each channel has its own turns, so a call that hangs on a dead connection delays no later channel.
        """
        acks, turn = self._acks, self._turn
        if acks is None:
            return
        async with turn:
            channel = acks.channel
            if channel.is_closed or acks is not self._acks:
                return
            with self._change():
                if not self.wanted():
                    self.consuming = False
                    await self._leave_off(channel)
                elif not channel.consumers:
                    await self._consume(acks)
                else:
                    self.consuming = True

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Note that the consumers are unknown, if the block does not reach its end."""
        self._changing = True
        with closable():
            yield
        self._changing = False

    async def _leave_off(self, channel: Channel) -> None:
        """Stop consuming; return once all messages that the broker had sent before have arrived.

        All consumers are cancelled at once: one after the other, the remaining ones would be filled again.
        The answers may be behind messages that wait for memory, and are waited for.
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
                await self._answer(channel.rpc_frames.get(), channel)
                channel.rpc_frames.task_done()

    async def _answer(self, call: Coroutine[Any, Any, object], channel: Channel) -> None:
        """Wait for the broker's answer to *call*; if none comes within :data:`CALL_S`, close the channel.

        While messages wait for memory, the answer may be behind them: that time does not count, up to
        :data:`FULL_S`, as callers that react to back-pressure wait here too.

        Raises:
            TimeoutError: the broker did not answer.
            ConnectionAbortedError: the channel closed meanwhile.
        """
        answered, waited_s, full_s = asyncio.ensure_future(call), 0.0, 0.0
        try:
            while waited_s < CALL_S and full_s < FULL_S:
                await asyncio.wait({answered}, timeout=LOOK_S)
                if answered.done():
                    await answered
                    return
                if channel.is_closed:
                    raise ConnectionAbortedError("the channel closed")
                if self.budget.is_waiting():
                    full_s += LOOK_S
                else:
                    waited_s += LOOK_S
        finally:
            await end([answered])
        with suppress(*CONNECTION_ERRORS):
            await channel.close(timeout=LOOK_S)
        raise TimeoutError("the broker does not answer")

    async def _consume(self, acks: Acks) -> None:
        """Consume from every queue, once all of them exist.

        A missing one closes the channel, and with it the acks of the others. So all are checked before the
        first consumer. A prefetch is per consumer: a window of one message waits until the previous
        consumer's message is settled.
        """
        self.consuming = any(consumer.in_hand > 0 for consumer in self._consumers.values())
        if self.consuming:
            return
        for queue in self.window.queues:
            await self._answer(acks.channel.queue_declare(queue, passive=True), acks.channel)
        await self._add_consumers(acks)

    async def _add_consumers(self, acks: Acks) -> None:
        gate, on_settled = self._gate, self._settled if self.window.prefetch == 1 else None
        if gate is None:
            raise RuntimeError("consumers without a channel")
        channel = acks.channel
        await self._answer(channel.basic_qos(prefetch_count=self._prefetch.value), channel)
        for queue in self.window.queues:
            consumer = Consumer(queue, acks, on_settled=on_settled)
            tag = gate.name(queue, self._callback(consumer, gate))
            self._consumers[tag] = consumer  # known before its first message, and before its cancellation
            await self._answer(gate.consume(queue, tag), channel)
        self.consuming = True

    def _note_size(self, size_bytes: int) -> None:
        """Adapt the prefetch to the sizes of messages."""
        self._prefetch.add(size_bytes)
        self._plan_resize()

    def _plan_resize(self) -> None:
        """Set another prefetch once it is due, even if no message comes by then."""
        if self._resizing is not None and not self._resizing.done():
            return
        loop = asyncio.get_running_loop()
        due_at = self._prefetch.due_at(loop.time())
        if due_at is None:
            return
        if due_at <= loop.time():
            self._forget_plan()
            self._resizing = self._tasks.run_once(self.name, self._resize, self._change_failed)
        elif self._timer is None:
            self._timer = loop.call_at(due_at, self._plan_again)

    def _plan_again(self) -> None:
        self._forget_plan()
        if self._acks is not None and not self._acks.channel.is_closed:
            self._plan_resize()

    def _forget_plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _resize(self) -> None:
        """Consume again with another prefetch, which the broker cannot change otherwise.

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
                now = asyncio.get_running_loop().time()
                due_at = self._prefetch.due_at(now)
                if due_at is None or due_at > now:
                    return
                before, after = self._prefetch.value, self._prefetch.change(now)
                with self._change():
                    await self._leave_off(channel)
                    if self.wanted():
                        await self._add_consumers(acks)
                    else:
                        self.consuming = False
            source = self.window.source.value
            self.observe.said("window.resized", source=source, before=before, prefetch=after)
            # The messages that came meanwhile have planned nothing.
            asyncio.get_running_loop().call_soon(self._plan_again)
        except CONNECTION_ERRORS:
            await self._close_changing()

    def _settled(self) -> None:
        """Start to consume again, if a consumer waits for the settled message."""
        if self._acks is not None and not self._acks.channel.consumers:
            self._tasks.run_once(self.name, self.follow, self._change_failed)

    def _change_failed(self) -> None:
        """Let :meth:`run` open the channel anew, as its consumers are unknown."""
        self._changing = True
        self._tasks.run_once(self.name, self._close_changing, lambda: None)

    def _acks_failed(self, error: BaseException) -> None:
        """Let :meth:`run` open the channel anew, as acks are lost: their messages come again."""
        self._health.ended(self.name, error)
        self._change_failed()

    async def _until_broken(self, connection: AbstractConnection) -> None:
        if self._acks is None or self._cancelled is None:
            return
        channel, cancelled, transport = self._acks.channel, self._cancelled, underlay(connection)
        await first_of(cancelled.wait(), closed(channel, transport))
        source = self.window.source.value
        if cancelled.is_set():
            deleted = await self._deleted(connection)
            self.observe.warned("window.cancelled", source=source, deleted=deleted)
            await channel.close(timeout=5)
        elif not transport.is_closed:
            self.observe.warned("window.closed", source=source, detail=await close_reason(channel))

    async def _deleted(self, connection: AbstractConnection) -> list[str]:
        """Return the queues of the cancelled consumers that were deleted, or may have been.

        From 4.3 on, a consumer time-out cancels a consumer too, and its queue gives out its messages again.
        In doubt they stay ours: a second delivery is better than none.
        """
        deleted = []
        for consumer in [one for one in self._consumers.values() if one.cancelled]:
            if await is_there(connection, consumer.queue):
                consumer.timed_out()
            else:
                deleted.append(consumer.queue)
        return deleted

    def _callback(self, consumer: Consumer, gate: Gate) -> Take:
        deliver, source, queue = self.deliver, self.window.source, consumer.queue
        counted = Returns.NONE
        if self.window.counted:
            counted = Returns.FAILED if counts_only_failures(consumer.acks.channel) else Returns.ALL

        def take(message: DeliveredMessage) -> None:
            tag = message.delivery_tag or 0
            size_bytes = gate.charge(tag)
            consumer.handed_over()
            ticket = ChannelTicket(consumer, gate, tag)
            if consumer.leaving and self.budget.is_over():
                self._settle(ticket.requeue)
                return
            try:
                self._note_size(size_bytes)
                deliver(source, Incoming(raw_message(message, queue, counted), ticket))
            except Exception as error:  # a bug: the message comes again, and goes to suspect if that repeats
                self.observe.task_failed(self.name, error)
                self._settle(ticket.reject)

        return take

    def _settle(self, step: Step) -> None:
        """Settle a message beside the connection's reader, which must not wait for its writer."""
        self._tasks.run_once(self.name, step, self._change_failed)
