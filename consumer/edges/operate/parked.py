"""Look through the parked queue, replay entries and purge old ones, over AMQP alone.

A look (:mod:`consumer.edges.broker.look`) holds what it sees and gives it back, so looking changes nothing
but delivery counts. An entry leaves the queue only after the broker has confirmed its replay, or after the
archive has it on disk. An entry that is under way when we are interrupted is brought to its end.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel

from consumer.core.errors import BadEvent, BrokerUnavailable
from consumer.core.message.delivery import UnknownVersion, headers_of
from consumer.core.message.parked import ParkedEntry, entry_as_record, parked_mark, read_entry
from consumer.core.message.replay import replayed_delivery, replayed_headers
from consumer.core.model import RawMessage
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.broker.look import Held, Look, completed, look_into
from consumer.edges.broker.windows import raw_message
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import Archive, Publication
from topology.names import Names

_OWN = "it stood in {}, a queue of Leveret's own, and cannot be read; publish its event again"

_GONE = (
    "the store has no subscription {}; check LEVERET_HOME and [store] url, "
    "publish its event again for others, or purge it"
)


@dataclass(frozen=True, slots=True)
class Found:
    """One entry in hand."""

    entry: ParkedEntry
    held: Held


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
) -> AsyncGenerator[ParkedEntry, None]:
    """Yield every readable entry of the parked queue, oldest first; all go back at the end.

    Args:
        connection: To the broker; open until the generator is closed.
        names: Of our queues.
        unreadable: Takes what cannot be read; None: it is passed over.

    Raises:
        BrokerUnavailable: the broker or the queue is not there, or another look goes on.
    """
    async with look_into(connection, names.parked) as look:
        async for found in _entries(look):
            if isinstance(found, Found):
                yield found.entry
            elif unreadable is not None:
                unreadable.append(found)


async def purge(
    connection: AbstractConnection,
    names: Names,
    wanted: Callable[[ParkedEntry], bool],
    archive: Archive,
) -> AsyncGenerator[ParkedEntry, None]:
    """Move every wanted entry into *archive*, and yield it once it is there and was acked.

    Raises:
        BrokerUnavailable: the broker is not there; the entry may be parked still, and is archived too.
        OSError: the disk did not take an entry, which stays parked.
    """
    async with look_into(connection, names.parked) as look:
        async for found in _entries(look):
            if not isinstance(found, Found) or not wanted(found.entry):
                continue
            interrupted = await completed(_archived(found, archive))
            yield found.entry
            if interrupted:
                raise asyncio.CancelledError


async def replay(
    connection: AbstractConnection,
    names: Names,
    wanted: Callable[[ParkedEntry], bool],
    subscriptions: Collection[str],
) -> AsyncGenerator[ParkedEntry | Skipped, None]:
    """Send every wanted entry on its way again and yield it once that is confirmed and it was acked.

    What cannot be sent from here is yielded as skipped; the others go on.

    Args:
        connection: To the broker; open until the generator is closed.
        names: Of our queues.
        wanted: Says which entries are meant.
        subscriptions: The ids of all that exist. A worker would cancel what is for another one.

    Raises:
        BrokerUnavailable: the broker is not there, or did not take an entry, which then stays parked.
    """
    writing = Confirms(await _opened(connection))
    try:
        async with look_into(connection, names.parked) as look:
            async for found in _entries(look):
                if not isinstance(found, Found) or not wanted(found.entry):
                    continue
                again = _publication(found.entry, names, subscriptions)
                if isinstance(again, Skipped):
                    yield again
                    continue
                interrupted = await completed(_moved(found, again, writing))
                yield found.entry
                if interrupted:
                    raise asyncio.CancelledError
    finally:
        with suppress(*CONNECTION_ERRORS):
            await writing.channel.close()


async def _archived(found: Found, archive: Archive) -> None:
    """Write an entry to the archive and, once it is there, take it out of the queue."""
    await archive.append(entry_as_record(found.entry))
    try:
        await found.held.ack()
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(
            f"{found.entry.id} was archived but may still be parked: {error or type(error).__name__}"
        ) from None


async def _moved(found: Found, again: Publication, writing: Confirms) -> None:
    """Publish an entry once more and, once that is confirmed, take it out of the queue."""
    try:
        await writing.publish(again, again.message_id or uuid.uuid4().hex)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(
            f"{found.entry.id} was not replayed and stays parked: {error or type(error).__name__}"
        ) from None
    try:
        await found.held.ack()
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(
            f"{found.entry.id} was replayed but may still be parked: {error or type(error).__name__}"
        ) from None


async def _opened(connection: AbstractConnection) -> Channel:
    try:
        return await open_channel(connection, confirms=True)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"no channel to the broker: {error}") from None


async def _entries(look: Look) -> AsyncIterator[Found | Unreadable]:
    """Read what was there at the start; what is parked meanwhile waits for the next look."""
    async for held in look.messages():
        raw = raw_message(held.message, look.queue)
        try:
            entry = read_entry(raw)
        except (BadEvent, UnknownVersion, ValueError, OverflowError, TypeError) as error:
            yield Unreadable(raw, str(error) or type(error).__name__)
            continue
        yield Found(entry, held)
    if look.left:
        raise BrokerUnavailable(f"{look.left} more entries are parked than a look can hold; purge some first")


def _publication(entry: ParkedEntry, names: Names, subscriptions: Collection[str]) -> Publication | Skipped:
    delivery = replayed_delivery(entry, time.time())
    if delivery is not None:
        gone = [target for target in delivery.targets if target not in subscriptions]
        if gone:  # of several targets one may exist: sent to that one alone the entry could not stay
            return Skipped(entry.id, _GONE.format(" ".join(gone)))
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
