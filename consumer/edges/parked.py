"""Look through the parked queue, replay entries and purge old ones, over AMQP alone.

Entries are taken without an ack and given back when the channel closes, so looking changes nothing but
their delivery count. An entry leaves the queue only after the broker has confirmed its replay, or after the
archive has it on disk.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass

from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from pamqp.commands import Basic

from consumer.core.delivery import UnknownVersion, headers_of
from consumer.core.errors import BadEvent, BrokerUnavailable
from consumer.core.model import RawMessage
from consumer.core.parked import ParkedEntry, entry_as_record, parked_mark, read_entry
from consumer.core.replay import replayed_delivery, replayed_headers
from consumer.edges.broker.confirmed import Confirms
from consumer.edges.broker.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.broker.windows import raw_message
from consumer.ports import Archive, Publication
from topology.names import Names

_OWN = "it stood in {}, a queue of Leveret's own, and cannot be read; publish its event again"


@dataclass(frozen=True, slots=True)
class Found:
    """One entry in hand, and the tag that settles it."""

    entry: ParkedEntry
    tag: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message of the parked queue that is no entry this release can read; it stays where it is."""

    message: RawMessage
    why: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry that stays parked because it cannot be sent from here."""

    id: str
    reason: str  #: what to do instead


async def browse(
    connection: AbstractConnection, names: Names, unreadable: list[Unreadable] | None = None
) -> AsyncIterator[ParkedEntry]:
    """Yield every readable entry of the parked queue, oldest first; all go back at the end.

    Args:
        connection: To the broker.
        names: Of our queues.
        unreadable: Takes what cannot be read; None: it is passed over.

    Raises:
        BrokerUnavailable: the broker or the queue is not there.
    """
    channel = await _opened(connection)
    try:
        async for found in _messages(channel, names):
            if isinstance(found, Found):
                yield found.entry
            elif unreadable is not None:
                unreadable.append(found)
    finally:
        await channel.close()


async def purge(
    connection: AbstractConnection,
    names: Names,
    wanted: Callable[[ParkedEntry], bool],
    archive: Archive,
) -> AsyncIterator[ParkedEntry]:
    """Move every wanted entry into *archive*, and yield it once it is there and has left the queue.

    Raises:
        BrokerUnavailable: the broker is not there; the entry may be parked still, and is archived too.
        OSError: the disk did not take an entry, which stays parked.
    """
    channel = await _opened(connection)
    try:
        async for found in _messages(channel, names):
            if not isinstance(found, Found) or not wanted(found.entry):
                continue
            await archive.append(entry_as_record(found.entry))
            try:
                await channel.basic_ack(found.tag)
            except CONNECTION_ERRORS as error:
                raise BrokerUnavailable(
                    f"{found.entry.id} was archived but may still be parked: {error or type(error).__name__}"
                ) from None
            yield found.entry
    finally:
        with suppress(*CONNECTION_ERRORS):
            await channel.close()


async def replay(
    connection: AbstractConnection, names: Names, wanted: Callable[[ParkedEntry], bool]
) -> AsyncIterator[ParkedEntry | Skipped]:
    """Send every wanted entry on its way again and yield it once that is confirmed and it left the queue.

    What cannot be sent from here is yielded as skipped; the others go on.

    Raises:
        BrokerUnavailable: the broker is not there, or did not take an entry, which then stays parked.
    """
    reading, writing = await _opened(connection), Confirms(await _opened(connection))
    try:
        async for found in _messages(reading, names):
            if not isinstance(found, Found) or not wanted(found.entry):
                continue
            again = _publication(found.entry, names)
            if isinstance(again, Skipped):
                yield again
                continue
            await _moved(found, again, reading, writing)
            yield found.entry
    finally:
        with suppress(*CONNECTION_ERRORS):
            await reading.close()
        with suppress(*CONNECTION_ERRORS):
            await writing.channel.close()


async def _moved(found: Found, again: Publication, reading: Channel, writing: Confirms) -> None:
    """Publish an entry once more and, once that is confirmed, take it out of the queue."""
    try:
        await writing.publish(again, again.message_id or uuid.uuid4().hex)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(
            f"{found.entry.id} was not replayed and stays parked: {error or type(error).__name__}"
        ) from None
    try:
        await reading.basic_ack(found.tag)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(
            f"{found.entry.id} was replayed but may still be parked: {error or type(error).__name__}"
        ) from None


async def _opened(connection: AbstractConnection) -> Channel:
    try:
        return await open_channel(connection, confirms=True)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"no channel to the broker: {error}") from None


async def _messages(channel: Channel, names: Names) -> AsyncIterator[Found | Unreadable]:
    """Take as many messages as there were at the start; what is parked meanwhile waits for the next look."""
    try:
        left = (await channel.queue_declare(names.parked, passive=True)).message_count or 0
        while left > 0:
            message = await channel.basic_get(names.parked)
            if isinstance(message.delivery, Basic.GetEmpty):
                return
            left -= 1
            raw = raw_message(message, names.parked)
            try:
                entry = read_entry(raw)
            except (BadEvent, UnknownVersion, ValueError, OverflowError, TypeError) as error:
                yield Unreadable(raw, str(error) or type(error).__name__)
                continue
            yield Found(entry, message.delivery_tag or 0)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"queue {names.parked}: {error}") from None


def _publication(entry: ParkedEntry, names: Names) -> Publication | Skipped:
    delivery = replayed_delivery(entry, time.time())
    if delivery is not None:
        return Publication(
            exchange=names.due,
            routing_key=names.direct_key(names.replay),
            body=entry.body,
            headers=headers_of(delivery) | parked_mark(entry),
            content_type=delivery.event.content_type,
        )
    raw = entry.raw
    if raw is None:
        return Skipped(entry.id, "it holds neither an event nor a raw message")
    if raw.queue.startswith(names.inbox("")):
        # The events exchange does not know the rules of a source; the source's exchange has other readers.
        where = f"the exchange {raw.exchange} of a [[sources]] entry"
        return Skipped(entry.id, f"it came from {where}; publish it there again")
    if raw.exchange in (names.due, names.wait, names.dlx) or names.is_internal(raw.queue):
        # Its exchange and key tell nothing of its event: published as one, it could reach another tenant.
        return Skipped(entry.id, _OWN.format(raw.queue or raw.exchange))
    if raw.fault is not None:
        return Skipped(entry.id, "its headers could not be read; publish it again with headers that can be")
    return _as_published(raw, names)


def _as_published(raw: RawMessage, names: Names) -> Publication:
    """Publish a raw message once more as its producer did, to the events exchange."""
    return Publication(
        exchange=names.events,
        routing_key=raw.routing_key,
        body=raw.body,
        headers=replayed_headers(raw.headers),
        content_type=raw.content_type,
        content_encoding=raw.content_encoding,
        message_id=raw.message_id,
        type=raw.type,
        timestamp_s=raw.timestamp_s,
        app_id=raw.app_id,
        correlation_id=raw.correlation_id,
    )
