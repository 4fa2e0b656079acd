"""Look into a queue: take what is in it now, settle some of it, give back the rest. Nothing else here does.

Data flow: queue -> push consumers, one per window -> :class:`Held` -> ack, or back to the queue.

Three rules keep every message, whatever happens to us and to the broker afterwards:

1. Messages come by push consumers, and each channel has one at most. What ``basic.get`` took and a closed
   channel returned is in another order after the queue's log is read again: acks then hit other messages.
2. The rest goes back by an explicit nack, after the consumers are cancelled and before the channel closes.
3. A channel stays open until the queue counts none of our consumers: a cancelled one counts until all that
   it took is settled. Acks that the broker has not passed on to the queue are forgotten with the channel.

A look holds what it has seen, so another one would find nothing. Looks take turns: a queue with consumers is
being looked into. All of this was measured: docs/brokers.md, "Looking into a queue".
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from aio_pika.abc import AbstractConnection
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import ChannelNotFoundEntity

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, NOT_THERE, open_channel

_T = TypeVar("_T")

FIRST_WINDOW = 64  #: messages; nothing is known of their size yet
WHOLE = 65_535  #: messages; AMQP's largest prefetch
WINDOW_MAX = 4096  #: messages
WINDOW_MIN = 16  #: messages
WINDOW_BYTES = 64 * 1024 * 1024  #: of bodies that may be on their way to us
WINDOWS_MAX = 500
"""So many channels a look opens; RabbitMQ allows 2,047 per connection. They hold over a million messages."""
QUIET_S = 0.25  #: after this long without a message the queue is asked whether it is empty
TURN_S = 30.0  #: the longest wait for another look to end
TURN_LOOK_S = 0.2  #: between two questions whether it has, at most
GAP_S = 0.1  #: between the end of a look and the next one's beginning, at least
RETURNED_S = 15.0  #: the longest wait until what was settled is in the queue's log
ANSWER_S = 0.02  #: between two questions whether it is
CALL_S = 15.0  #: the longest wait for an answer of the broker


class QueueInUse(BrokerUnavailable):
    """Somebody else reads the queue, and holds what is in it."""


async def completed(step: Awaitable[object]) -> bool:
    """Run *step* to its end, whatever cancels us; return whether that happened.

    The caller passes the cancellation on by raising ``CancelledError``. The AMQP library needs this too: a
    call of a channel that is cancelled closes that channel.

    Raises:
        Exception: of *step*.
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
    """A channel, and its consumer."""

    channel: Channel
    prefetch: int
    consumer: str = ""  #: its tag
    in_hand: int = 0  #: messages that came and were not acked

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
        """Take it out of the queue; that has happened once the look ended without an error."""
        await self._window.channel.basic_ack(self.message.delivery_tag or 0, wait=False)
        self._window.acked()


class Look:
    """What one look sees. Made by :func:`look_into`."""

    def __init__(self, connection: AbstractConnection, queue: str, first_window: int) -> None:
        self.queue = queue
        self._first_window = first_window
        self.left = 0  #: messages that were there at the start and have not come
        self._connection = connection
        self._windows: list[_Window] = []
        self._inbox: asyncio.Queue[Held] = asyncio.Queue()
        self._largest_bytes = 1

    async def messages(self) -> AsyncIterator[Held]:
        """Yield as many messages as there were at the start, or fewer where some expire first.

        The bodies of one window at most are on their way to us: a consumer that waits is sent no more.

        Raises:
            BrokerUnavailable: the connection broke.
        """
        try:
            while self.left > 0:
                if self._inbox.empty() and all(one.in_hand >= one.prefetch for one in self._windows):
                    if len(self._windows) >= WINDOWS_MAX:
                        return
                    await self._open(self._next_prefetch())
                held = await self._next()
                if held is not None:
                    self.left -= 1
                    yield held
                elif await self._is_dry():
                    self.left = 0
        except CONNECTION_ERRORS as error:
            raise _unavailable(self.queue, error) from None

    async def begin(self) -> None:
        """Wait for our turn, and start to consume.

        Raises:
            QueueInUse: another look has not ended in time.
            BrokerUnavailable: the queue is not there, or the connection broke.
        """
        deadline = asyncio.get_running_loop().time() + TURN_S
        try:
            while not await self._begun():
                if asyncio.get_running_loop().time() > deadline:
                    raise QueueInUse(
                        f"queue {self.queue} is being read by somebody else, who holds what is in it: "
                        "another look, a replay or a purge; try again when that has ended"
                    )
                await asyncio.sleep(TURN_LOOK_S * random.random())  # parts two that began at once
        except CONNECTION_ERRORS as error:
            raise _unavailable(self.queue, error) from None

    async def end(self) -> bool:
        """Give back what is in hand; return whether all that was settled is in the queue's log."""
        is_stored = False
        with suppress(*CONNECTION_ERRORS):
            await self._give_back()
            is_stored = await self._is_stored()
        await self._close()
        return is_stored

    async def _begun(self) -> bool:
        """Start to consume, unless somebody else reads the queue or nothing is in it."""
        self.left, others = await self._counted()
        if not (self.left or others):
            self.left, others = await self._counted(is_led=True)
            return not (self.left or others)
        await asyncio.sleep(GAP_S)  # who ended just now sees that nobody reads before we do
        self.left, others = await self._counted()
        if others or not self.left:
            return False
        await self._open(self._first_window)
        _, readers = await self._counted()
        if readers <= 1:
            return True
        await _whole(self._give_back())  # two began at once
        await _whole(self._close())
        self._windows, self._inbox = [], asyncio.Queue()
        return False

    async def _give_back(self) -> None:
        for window in self._windows:  # first all: what one gives back must not come to another
            await window.channel.basic_cancel(window.consumer, timeout=CALL_S)
        for window in self._windows:
            await window.channel.basic_nack(0, multiple=True)  # also what we have not seen yet
            await window.channel.basic_qos(
                prefetch_count=1, timeout=CALL_S
            )  # answered: now the next, in order

    async def _is_stored(self) -> bool:
        """Return once the queue counts none of our consumers; False where that does not come."""
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
            if not counted or counted > before:  # more: it is another's turn, so ours are gone
                break
            if asyncio.get_running_loop().time() > deadline:
                return False
            before = counted
            await asyncio.sleep(ANSWER_S)
        return True

    async def _demand_leader(self, channel: Channel) -> None:
        """Return once the queue has a leader: without one both counts are 0, whatever is in it.

        Source: ``rabbit_quorum_queue:stat``. To consume is an entry of the queue's log.
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
        """Return how many messages are ready and how many consumers there are.

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
        """Say whether no message is ready, and none is on its way to us.

        The answer of a channel comes after what the queue had given it before.
        """
        ready = 0
        for window in self._windows:
            asked = window.channel.queue_declare(self.queue, passive=True, timeout=CALL_S)
            ready = (await _whole(asked)).message_count or 0
        await asyncio.sleep(0)  # what came is put into the inbox by tasks
        return not ready and self._inbox.empty()


@asynccontextmanager
async def look_into(
    connection: AbstractConnection, queue: str, first_window: int = FIRST_WINDOW
) -> AsyncIterator[Look]:
    """Give a look into *queue*; at its end what was not acked goes back, also when it is cancelled.

    Args:
        connection: To the broker; open until the look has ended.
        queue: Its name.
        first_window: Messages that come at once. With :data:`WHOLE` up to so many go back in their order,
            also when some were acked or the look ended early; their bodies may all be in memory.

    Raises:
        QueueInUse: another look holds what is in it.
        BrokerUnavailable: the queue is not there, the connection broke, or acks may not have been stored:
            what they settled may come again.
    """
    look = Look(connection, queue, first_window)
    try:
        await look.begin()
        yield look
    except BaseException:
        await completed(look.end())
        raise
    if not await _whole(look.end()):
        raise BrokerUnavailable(
            f"queue {queue}: the broker did not store in time what was taken out; some of it may come again"
        )


async def _ignore(_message: DeliveredMessage) -> None:
    """Leave a message to the nack that follows."""


def _unavailable(queue: str, error: BaseException) -> BrokerUnavailable:
    remedy = f"; {NOT_THERE}" if isinstance(error, ChannelNotFoundEntity) else ""
    return BrokerUnavailable(f"queue {queue}: {str(error) or type(error).__name__}{remedy}")
