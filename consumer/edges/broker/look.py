"""Look into a queue: take its messages, settle some of them, give back the others. Only this module does so.

Data flow: queue -> push consumers, one per window -> :class:`Held` -> ack, or back to the queue.

Three rules keep every message, even if we or the broker fail afterwards:

1. Messages come by push consumers, at most one for each channel. Messages that ``basic.get`` took and a
   closed channel returned are in another order after the queue's log is read again: acks then hit other
   messages.
2. Unsettled messages go back by an explicit nack, after the consumers are cancelled and before the channel
   closes.
3. A channel stays open until the queue counts none of our consumers: a cancelled one counts until all of its
   messages are settled. Acks that the broker has not passed on to the queue are lost with the channel.

A look holds the messages that it has read, so another one would not find them. Looks take turns: a queue with
consumers is in use. All of this was measured: docs/brokers.md, "Looking into a queue".
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from aio_pika.abc import AbstractConnection
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import ChannelNotFoundEntity

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, NOT_THERE, open_channel
from consumer.edges.broker.connection.server import close_if_cancelled

_T = TypeVar("_T")

OnRead: TypeAlias = Callable[[int, int], None]
"""Receives the number of messages that were read, and the number at the start."""

FIRST_WINDOW = 64  #: messages in the first window, before their size is known
WHOLE = 65_535  #: messages; AMQP's largest prefetch
WINDOW_MAX = 4096  #: messages
WINDOW_MIN = 16  #: messages
WINDOW_BYTES = 64 * 1024 * 1024  #: bodies of one window, which may all be on their way
WINDOWS_MAX = 500
"""Channels of one look, at most; RabbitMQ allows 2,047 per connection. They hold over a million messages."""
QUIET_S = 0.25  #: time without a message after which the queue is asked whether it is empty
TURN_S = 30.0  #: longest wait for the end of another look
TURN_LOOK_S = 0.2  #: longest pause between two checks for that end
GAP_S = 0.1  #: shortest pause between the end of a look and the next one
RETURNED_S = 15.0  #: longest wait until all settled messages are in the queue's log
ANSWER_S = 0.02  #: pause between two checks for that
CALL_S = 15.0  #: longest wait for an answer of the broker


class QueueInUse(BrokerUnavailable):
    """Another consumer reads the queue, and holds its messages."""


async def completed(step: Awaitable[object]) -> bool:
    """Run *step* to its end, even if we are cancelled; return whether we were.

    The caller then passes the cancellation on by raising ``CancelledError``. The AMQP library needs this too:
    a cancelled call of a channel closes that channel.

    Raises:
        Exception: any error of *step*.
    """
    task, cancelled = asyncio.ensure_future(step), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    return cancelled


async def _whole(step: Awaitable[_T]) -> _T:
    """Return the result of *step*; a cancellation waits for its end."""
    task = asyncio.ensure_future(step)
    if await completed(task):
        raise asyncio.CancelledError
    return task.result()


@dataclass(slots=True, eq=False)
class _Window:
    """A channel with its consumer."""

    channel: Channel
    prefetch: int
    consumer: str = ""  #: tag of the consumer
    in_hand: int = 0  #: messages that arrived and were not acked

    def began(self, consumer: str) -> None:
        """Take the tag of its consumer."""
        self.consumer = consumer

    def came(self) -> None:
        """Count a message in hand."""
        self.in_hand += 1

    def acked(self) -> None:
        """Count one less."""
        self.in_hand -= 1


@dataclass(frozen=True, slots=True)
class Held:
    """One message in hand. Without an ack it goes back to its queue at the end of the look."""

    message: DeliveredMessage
    _window: _Window

    async def ack(self) -> None:
        """Take the message out of the queue; this is certain once the look ends without an error."""
        await self._window.channel.basic_ack(self.message.delivery_tag or 0, wait=False)
        self._window.acked()


class Look:
    """One look into a queue. Made by :func:`look_into`."""

    def __init__(
        self, connection: AbstractConnection, queue: str, first_window: int, on_read: OnRead | None
    ) -> None:
        self.queue = queue
        self._first_window = first_window
        self._on_read = on_read
        self.left = 0  #: messages that were there at the start and have not arrived yet
        self._connection = connection
        self._windows: list[_Window] = []
        self._inbox: asyncio.Queue[Held] = asyncio.Queue()
        self._largest_bytes = 1

    async def messages(self) -> AsyncIterator[Held]:
        """Yield as many messages as there were at the start, or fewer if some expire first.

        At most the bodies of one window are on their way to us, as a full window receives no more.

        Raises:
            QueueInUse: another consumer took some of the messages meanwhile.
            BrokerUnavailable: the connection broke.
        """
        total = self.left
        try:
            while self.left > 0:
                if self._inbox.empty() and all(one.in_hand >= one.prefetch for one in self._windows):
                    if len(self._windows) >= WINDOWS_MAX:
                        return
                    await self._open(self._next_prefetch())
                held = await self._next()
                if held is not None:
                    self.left -= 1
                    if self._on_read is not None:
                        self._on_read(total - self.left, total)
                    yield held
                elif await self._is_dry():
                    self.left = 0  # the rest expired
        except CONNECTION_ERRORS as error:
            raise _unavailable(self.queue, error) from None

    async def begin(self) -> None:
        """Wait for our turn, and start to consume.

        Raises:
            QueueInUse: another look has not ended in time.
            BrokerUnavailable: the queue does not exist, or the connection broke.
        """
        deadline = asyncio.get_running_loop().time() + TURN_S
        try:
            while not await self._begun():
                if asyncio.get_running_loop().time() > deadline:
                    raise QueueInUse(
                        f"queue {self.queue} is being read by another consumer, which holds its messages: "
                        "a look, a replay or a purge; try again when that has ended"
                    )
                await asyncio.sleep(TURN_LOOK_S * random.random())  # separates two looks that began at once
        except CONNECTION_ERRORS as error:
            raise _unavailable(self.queue, error) from None

    async def end(self) -> bool:
        """Give the unacked messages back; return whether all settled ones are in the queue's log."""
        is_stored = False
        with suppress(*CONNECTION_ERRORS):
            await self._give_back()
            is_stored = await self._is_stored()
        await self._close()
        return is_stored

    async def _begun(self) -> bool:
        """Start to consume, unless another consumer reads the queue or it is empty."""
        self.left, others = await self._counted()
        if not (self.left or others):
            self.left, others = await self._counted(is_led=True)
            return not (self.left or others)
        await asyncio.sleep(GAP_S)  # a look that just ended must see the queue without consumers
        self.left, others = await self._counted()
        if others or not self.left:
            return False
        await self._open(self._first_window)
        _, readers = await self._counted()
        if readers <= 1:
            return True
        await _whole(self._give_back())  # two looks began at once
        await _whole(self._close())
        self._windows, self._inbox = [], asyncio.Queue()
        return False

    async def _give_back(self) -> None:
        for window in self._windows:  # cancel all first: a returned message must not go to another window
            await window.channel.basic_cancel(window.consumer, timeout=CALL_S)
        for window in self._windows:
            await window.channel.basic_nack(0, multiple=True)  # also those that we have not read yet
            # Its answer shows that the nack was handled, so that the windows go back in their order.
            await window.channel.basic_qos(prefetch_count=1, timeout=CALL_S)

    async def _is_stored(self) -> bool:
        """Return True once the queue counts none of our consumers; False if that takes too long."""
        deadline, before = asyncio.get_running_loop().time() + RETURNED_S, len(self._windows)
        is_led = False
        while self._windows:
            channel = self._windows[-1].channel
            counts = await channel.queue_declare(self.queue, passive=True, timeout=CALL_S)
            counted = counts.consumer_count or 0
            if not counted and not counts.message_count and not is_led:
                await self._demand_leader(channel)
                is_led = True
                continue
            if not counted or counted > before:  # a higher count is another look's, so ours are gone
                break
            if asyncio.get_running_loop().time() > deadline:
                return False
            before = counted
            await asyncio.sleep(ANSWER_S)
        return True

    async def _demand_leader(self, channel: Channel) -> None:
        """Return once the queue has a leader: without one both counts are 0, even if it has messages.

        Source: ``rabbit_quorum_queue:stat``. A consume command is an entry of the queue's log.
        """
        answer = await channel.basic_consume(self.queue, _ignore, timeout=CALL_S)
        await channel.basic_cancel(answer.consumer_tag or "", timeout=CALL_S)
        await channel.basic_nack(0, multiple=True)

    async def _close(self) -> None:
        for window in self._windows:
            with suppress(*CONNECTION_ERRORS):
                await window.channel.close(timeout=CALL_S)

    async def _next(self) -> Held | None:
        try:
            async with asyncio.timeout(QUIET_S):
                return await self._inbox.get()
        except TimeoutError:
            return None

    async def _open(self, prefetch: int) -> None:
        """Open one more window."""
        channel = await _whole(open_channel(self._connection, confirms=False))
        close_if_cancelled(channel)
        window = _Window(channel, prefetch)

        async def take(message: DeliveredMessage) -> None:
            window.came()
            self._largest_bytes = max(self._largest_bytes, len(message.body))
            self._inbox.put_nowait(Held(message, window))

        async def consume() -> None:
            await channel.basic_qos(prefetch_count=prefetch, timeout=CALL_S)
            answer = await channel.basic_consume(self.queue, take, timeout=CALL_S)
            window.began(answer.consumer_tag or "")
            self._windows.append(window)

        await _whole(consume())

    def _next_prefetch(self) -> int:
        last = self._windows[-1].prefetch
        return max(WINDOW_MIN, min(WINDOW_MAX, 2 * last, WINDOW_BYTES // self._largest_bytes))

    async def _counted(self, *, is_led: bool = False) -> tuple[int, int]:
        """Return the number of ready messages and of consumers.

        Without a leader both are 0; *is_led* waits for one.
        """

        async def count() -> tuple[int, int]:
            channel = await open_channel(self._connection, confirms=False)
            try:
                if is_led:
                    await self._demand_leader(channel)
                declared = await channel.queue_declare(self.queue, passive=True, timeout=CALL_S)
                return declared.message_count or 0, declared.consumer_count or 0
            finally:
                with suppress(*CONNECTION_ERRORS):
                    await channel.close(timeout=CALL_S)

        return await _whole(count())

    async def _is_dry(self) -> bool:
        """Return whether no message is ready or on its way to us.

        A channel answers after the messages that the queue had given it before.

        Raises:
            QueueInUse: another consumer may hold the messages that we miss.
        """
        ready = readers = 0
        for window in self._windows:
            asked = window.channel.queue_declare(self.queue, passive=True, timeout=CALL_S)
            counts = await _whole(asked)
            ready, readers = counts.message_count or 0, counts.consumer_count or 0
        await asyncio.sleep(0)  # tasks put arrived messages into the inbox
        if ready or not self._inbox.empty():
            return False
        if readers > len(self._windows):
            raise QueueInUse(
                f"queue {self.queue}: another consumer holds up to {self.left} of its messages; end it and "
                "try again"
            )
        return True


@asynccontextmanager
async def look_into(
    connection: AbstractConnection,
    queue: str,
    first_window: int = FIRST_WINDOW,
    on_read: OnRead | None = None,
) -> AsyncIterator[Look]:
    """Open a look into *queue*; at its end, or when it is cancelled, unacked messages go back.

    Args:
        connection: Connection to the broker, open until the look has ended.
        queue: Name of the queue.
        first_window: Messages that arrive at once. With :data:`WHOLE` up to so many go back in their order,
            even if some were acked or the look ended early; their bodies may all be in memory.
        on_read: Is called for each message.

    Raises:
        QueueInUse: another look holds the messages.
        BrokerUnavailable: the queue does not exist, the connection broke, or acks may not have been stored,
            so that the acked messages may come again.
    """
    look = Look(connection, queue, first_window, on_read)
    try:
        await look.begin()
        yield look
    except BaseException:
        await completed(look.end())
        raise
    if not await _whole(look.end()):
        raise BrokerUnavailable(
            f"queue {queue}: the broker did not store all acks in time; some of the messages may come again"
        )


async def _ignore(_message: DeliveredMessage) -> None:
    """Leave a message to the following nack."""


def _unavailable(queue: str, error: BaseException) -> BrokerUnavailable:
    remedy = f"; {NOT_THERE}" if isinstance(error, ChannelNotFoundEntity) else ""
    return BrokerUnavailable(f"queue {queue}: {str(error) or type(error).__name__}{remedy}")
