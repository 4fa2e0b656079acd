"""Keep the broker's record of the store: one message in a durable queue.

    look:   exclusive queue (a lock) -> consume the record -> cancel -> give it back
    record: publish the new one, confirmed -> ack the old one

Two messages exist only after a crash in between: the later one counts. They are consumed and given back
before the channel closes, instead of fetched by ``basic.get``: see docs/brokers.md. Each look counts as a
return, so a message with many looks is published anew.

Implements :class:`consumer.ports.StoreRecord`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from aio_pika.abc import AbstractConnection
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource, ChannelNotFoundEntity

from consumer.core.errors import BrokerUnavailable
from consumer.core.store.lineage import Decide, Generation, decode, encode
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    NOT_THERE,
    AmqpOptions,
    closable,
    close_quietly,
    connect,
    open_channel,
)
from consumer.edges.broker.connection.current import CurrentConnection
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.edges.broker.wire.raw_message import raw_message
from consumer.ports import Publication
from topology.names import Names

CALL_S = 10.0
TURN_S = 10.0  #: longest wait for other workers that look
TURN_PAUSE_S = 0.05
COMES_S = 2.0  #: time within which the queue's message arrives
LOOKS_MAX = 1_000  #: returns after which a message is published anew


class BrokerStoreRecord:
    """Reads and writes the message."""

    def __init__(
        self,
        current: CurrentConnection,
        names: Names,
        queues: Sequence[str],
        publish: Callable[[Publication], Awaitable[object]],
        on_missing: Callable[[], None] | None,
    ) -> None:
        """Prepare; without a connection every call raises ``BrokerUnavailable``.

        Args:
            current: Provides the connection for looks, while there is one.
            names: Names of the topology.
            queues: Queues with messages of the store's subscriptions.
            publish: Returns once the broker has confirmed the publication.
            on_missing: Asks for the queue to be declared; None for a worker that declares nothing, and so
                takes no turns with others.
        """
        self._current = current
        self._names = names
        self._queues = queues
        self._publish = publish
        self._on_missing = on_missing
        self._turn = asyncio.Lock()

    async def settle(self, decide: Decide) -> Generation | None:
        """Pass the record to *decide*, and record its result; no other worker comes between.

        Raises:
            BrokerUnavailable: the record cannot be read or written now.
        """
        connection = self._current.get()
        try:
            with closable():
                async with self._turn, self._alone(connection):
                    return await self._settle(connection, decide)
        except CONNECTION_ERRORS as error:
            reason = str(error) or type(error).__name__
            remedy = f"; {NOT_THERE}" if isinstance(error, ChannelNotFoundEntity) else ""
            raise BrokerUnavailable(f"queue {self._names.store}: {reason}{remedy}") from None

    async def _settle(self, connection: AbstractConnection, decide: Decide) -> Generation | None:
        try:
            async with _channel(connection) as channel:
                return await self._decide(connection, channel, decide)
        except ChannelNotFoundEntity:
            if self._on_missing is not None:
                self._on_missing()
                raise
        decide(None, await self._count(connection))  # `topology apply` of this release has not been run yet
        return None

    async def _decide(
        self, connection: AbstractConnection, channel: Channel, decide: Decide
    ) -> Generation | None:
        messages = await self._taken(channel)
        record = decode(messages[-1].body) if messages else None
        try:
            wanted = decide(record, 0 if record is not None else await self._count(connection))
            if wanted is None and messages and _looks(messages[-1]) > LOOKS_MAX:
                wanted = record
            if wanted is not None:
                await self._write(wanted)
                await _settle_all(channel, messages)
                messages = []
            return wanted or record
        finally:
            for message in messages:
                await channel.basic_nack(message.delivery_tag or 0, requeue=True)
            await channel.basic_qos(prefetch_count=1, timeout=CALL_S)  # its answer follows the nacks

    async def _write(self, generation: Generation) -> None:
        async with asyncio.timeout(CALL_S):
            await self._publish(
                Publication(exchange=self._names.store, routing_key="", body=encode(generation))
            )

    async def _taken(self, channel: Channel) -> Sequence[DeliveredMessage]:
        """Take the queue's messages in their order, and cancel the consumer.

        Raises:
            BrokerUnavailable: another consumer holds the message, so that the record is unknown.
        """
        queue = self._names.store
        declared = await channel.queue_declare(queue, passive=True, timeout=CALL_S)
        # another consumer may hold the message
        count = declared.message_count or (1 if declared.consumer_count else 0)
        if not count:
            return ()
        inbox: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        await channel.basic_qos(prefetch_count=count, timeout=CALL_S)
        consumer = await channel.basic_consume(queue, inbox.put, no_ack=False, timeout=CALL_S)
        taken: list[DeliveredMessage] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(COMES_S):
                while len(taken) < count:
                    taken.append(await inbox.get())
        await channel.basic_cancel(str(consumer.consumer_tag), timeout=CALL_S)
        while not inbox.empty():
            taken.append(inbox.get_nowait())
        if not taken:
            raise BrokerUnavailable(f"queue {queue}: another consumer holds the record; end it")
        return taken

    async def _count(self, connection: AbstractConnection) -> int:
        """Return the number of ready messages in our queues."""
        async with _channel(connection) as channel:
            found = [
                (await channel.queue_declare(queue, passive=True, timeout=CALL_S)).message_count or 0
                for queue in self._queues
            ]
        return sum(found)

    @asynccontextmanager
    async def _alone(self, connection: AbstractConnection) -> AsyncIterator[None]:
        """Wait for the lock: an exclusive queue, which belongs to one connection and ends with it.

        Source: RabbitMQ "Queues", exclusive queues.
        """
        if self._on_missing is None:
            yield
            return
        async with asyncio.timeout(TURN_S):
            while not await self._lock(connection):  # noqa: ASYNC110 - another process holds it
                await asyncio.sleep(TURN_PAUSE_S)
        try:
            yield
        finally:
            with suppress(*CONNECTION_ERRORS):
                async with _channel(connection) as channel:
                    await channel.queue_delete(self._names.store_lock, timeout=CALL_S)

    async def _lock(self, connection: AbstractConnection) -> bool:
        try:
            async with _channel(connection) as channel:
                await channel.queue_declare(
                    self._names.store_lock, exclusive=True, auto_delete=True, timeout=CALL_S
                )
        except ChannelLockedResource:
            return False
        except ChannelAccessRefused:  # without the right to declare there is no lock
            self._on_missing = None
        return True


@asynccontextmanager
async def recording(
    options: AmqpOptions, names: Names, queues: Sequence[str]
) -> AsyncIterator[BrokerStoreRecord]:
    """Give the record for a command, over a separate connection.

    Raises:
        BrokerUnavailable: no broker answers.
    """
    connection = await connect(options, "store")
    try:
        confirms = Confirms(await open_channel(connection, confirms=True))

        async def publish(publication: Publication) -> None:
            await confirms.publish(publication, uuid.uuid4().hex)

        yield BrokerStoreRecord(CurrentConnection(connection), names, queues, publish, on_missing=_ignore)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"queue {names.store}: {error}") from None
    finally:
        await close_quietly(connection)


def _ignore() -> None:
    """Declare nothing, as a command reports the missing queue."""


def _looks(message: DeliveredMessage) -> int:
    return raw_message(message, "").delivery_count


async def _settle_all(channel: Channel, messages: Sequence[DeliveredMessage]) -> None:
    for message in messages:
        await channel.basic_ack(message.delivery_tag or 0)


@asynccontextmanager
async def _channel(connection: AbstractConnection) -> AsyncIterator[Channel]:
    channel = await open_channel(connection, confirms=False)
    try:
        yield channel
    finally:
        if not channel.is_closed:
            await channel.close(timeout=CALL_S)
