"""Look through the parked queue and replay entries, over AMQP alone.

Entries are taken without an ack and given back when the channel closes, so looking changes nothing but
their delivery count. An entry leaves the queue only after the broker has confirmed its replay.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from pamqp.commands import Basic

from consumer.core.delivery import UnknownVersion, headers_of
from consumer.core.errors import BadEvent, BrokerUnavailable
from consumer.core.model import RawMessage
from consumer.core.parked import ParkedEntry, read_entry
from consumer.core.replay import replayed_delivery
from consumer.edges.broker.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.broker.publisher import publish_on
from consumer.edges.broker.windows import raw_message
from consumer.ports import Publication
from topology.names import Names


@dataclass(frozen=True, slots=True)
class Found:
    """One entry in hand, and the tag that settles it."""

    entry: ParkedEntry
    tag: int


async def browse(connection: AbstractConnection, names: Names) -> AsyncIterator[ParkedEntry]:
    """Yield every readable entry of the parked queue, oldest first; all go back at the end.

    Raises:
        BrokerUnavailable: the broker or the queue is not there.
    """
    channel = await _opened(connection)
    try:
        async for found in _entries(channel, names):
            yield found.entry
    finally:
        await channel.close()


async def replay(
    connection: AbstractConnection, names: Names, wanted: Callable[[ParkedEntry], bool]
) -> AsyncIterator[ParkedEntry]:
    """Send every wanted entry on its way again and yield it once that is confirmed and it left the queue.

    Raises:
        BrokerUnavailable: the broker is not there, or did not take an entry, which then stays parked.
    """
    reading, writing = await _opened(connection), await _opened(connection)
    try:
        async for found in _entries(reading, names):
            if not wanted(found.entry):
                continue
            try:
                await publish_on(writing, _publication(found.entry, names), uuid.uuid4().hex)
            except CONNECTION_ERRORS as error:
                raise BrokerUnavailable(
                    f"{found.entry.id} was not replayed and stays parked: {error}"
                ) from None
            await reading.basic_ack(found.tag)
            yield found.entry
    finally:
        await reading.close()
        await writing.close()


async def _opened(connection: AbstractConnection) -> Channel:
    try:
        return await open_channel(connection, confirms=True)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"no channel to the broker: {error}") from None


async def _entries(channel: Channel, names: Names) -> AsyncIterator[Found]:
    """Take as many messages as there were at the start; what is parked meanwhile waits for the next look."""
    try:
        left = (await channel.queue_declare(names.parked, passive=True)).message_count or 0
        while left > 0:
            message = await channel.basic_get(names.parked)
            if isinstance(message.delivery, Basic.GetEmpty):
                return
            left -= 1
            try:
                entry = read_entry(raw_message(message, names.parked))
            except (BadEvent, UnknownVersion):
                continue
            yield Found(entry, message.delivery_tag or 0)
    except aiormq.exceptions.AMQPError as error:
        raise BrokerUnavailable(f"queue {names.parked}: {error}") from None


def _publication(entry: ParkedEntry, names: Names) -> Publication:
    delivery = replayed_delivery(entry, time.time())
    if delivery is not None:
        return Publication(
            exchange=names.due,
            routing_key=names.direct_key(names.replay),
            body=entry.body,
            headers=headers_of(delivery),
            content_type=delivery.event.content_type,
        )
    if entry.raw is None:
        raise BrokerUnavailable(f"{entry.id} holds neither an event nor a raw message")
    return _as_published(entry.raw, names)


def _as_published(raw: RawMessage, names: Names) -> Publication:
    """Publish a raw message once more as its producer did, to the events exchange.

    Raises:
        BrokerUnavailable: it came through the inbox of a source, whose rules the events exchange knows not.
    """
    if raw.queue.startswith(names.inbox("")):
        raise BrokerUnavailable(
            f"it came from the exchange {raw.exchange} of a [[sources]] entry: publish it there again"
        )
    headers: Mapping[str, Any] = raw.headers
    return Publication(
        exchange=names.events,
        routing_key=raw.routing_key,
        body=raw.body,
        headers={k: v for k, v in headers.items() if not k.lower().startswith(("x-", "leveret-"))},
        content_type=raw.content_type or "application/json",
        message_id=raw.message_id,
        type=raw.type,
        timestamp_s=raw.timestamp_s,
        app_id=raw.app_id,
        correlation_id=raw.correlation_id,
    )
