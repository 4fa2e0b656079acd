"""List the parked queue, replay entries and purge old ones, over AMQP alone.

A look (:mod:`consumer.edges.broker.look`) holds the messages that it reads and gives them back, so it changes
nothing but delivery counts. An entry leaves the queue only after the broker has confirmed its replay, or
after the archive has it on disk. An interruption lets the entry in hand finish first.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

import orjson
from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel

from consumer.core.errors import BadEvent, BrokerUnavailable, FrameTooLarge
from consumer.core.message.delivery import UnknownVersion, headers_of
from consumer.core.message.parked import ParkedEntry, entry_as_record, parked_mark, read_entry
from consumer.core.message.records import ParkedRow, parked_row
from consumer.core.message.replay import replayed_delivery, replayed_headers
from consumer.core.message.shrink import shrunk
from consumer.core.model import RawMessage
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.broker.look import Held, Look, completed
from consumer.edges.broker.wire.confirmed import Confirms, demand_fit
from consumer.edges.broker.wire.raw_message import raw_message
from consumer.edges.operate.parked.lock import Turn, parked_look
from consumer.ports import Archive, Publication
from topology.names import Names

AGES_AT_ONCE = 5_000  #: ages in one message to the workers

_OWN = "it was in {}, a queue of Leveret's own, and cannot be read; publish its event again"

_GONE = (
    "the store has no subscription {}; check LEVERET_HOME and [store] url, "
    "publish its event again for others, or purge it"
)


@dataclass(frozen=True, slots=True)
class Found:
    """One readable entry in hand."""

    entry: ParkedEntry
    held: Held


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message of the parked queue that this release cannot read; it stays there."""

    message: RawMessage
    why: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry that stays parked because it cannot be sent from here."""

    id: str
    reason: str  #: why, and the remedy


async def browse(
    connection: AbstractConnection, names: Names, turn: Turn, unreadable: list[Unreadable] | None = None
) -> AsyncGenerator[ParkedEntry, None]:
    """Yield every readable entry of the parked queue, oldest first; all go back at the end.

    Args:
        connection: Connection to the broker, open until the generator is closed.
        names: Names of our queues.
        turn: How to get the lock of the parked queue.
        unreadable: Collects the unreadable messages; None ignores them.

    Raises:
        QueueInUse: another command has the entries in hand.
        BrokerUnavailable: the broker is away, or the queue does not exist.
    """
    async with parked_look(connection, names, turn) as look:
        async for found in entries_of(look):
            if isinstance(found, Found):
                yield found.entry
            elif unreadable is not None:
                unreadable.append(found)


@dataclass(frozen=True, slots=True)
class Survey:
    """All that was in the parked queue."""

    entries: list[ParkedRow]
    unreadable: list[Unreadable]


@asynccontextmanager
async def survey(connection: AbstractConnection, names: Names, turn: Turn) -> AsyncIterator[Survey]:
    """Give the index's rows of the whole queue; until the block ends, the entries stay in hand.

    Raises:
        QueueInUse: another command has the entries in hand.
        BrokerUnavailable: the broker is away, or the queue does not exist.
    """
    found = Survey([], [])
    async with parked_look(connection, names, turn) as look:
        async for each in entries_of(look):
            if isinstance(each, Found):
                found.entries.append(parked_row(each.entry))
            else:
                found.unreadable.append(each)
        yield found


async def purge(
    connection: AbstractConnection,
    names: Names,
    turn: Turn,
    wanted: Callable[[ParkedEntry], bool],
    archive: Archive,
) -> AsyncGenerator[ParkedEntry, None]:
    """Move every wanted entry into *archive*, and yield it once it is archived and acked.

    Raises:
        QueueInUse: another command has the entries in hand.
        BrokerUnavailable: the broker is away; the archived entry may still be parked.
        OSError: the disk refused an entry, which stays parked.
    """
    gone: list[ParkedEntry] = []
    try:
        async with parked_look(connection, names, turn) as look:
            async for found in entries_of(look):
                if not isinstance(found, Found) or not wanted(found.entry):
                    continue
                interrupted = await completed(_archived(found, archive))
                gone.append(found.entry)
                yield found.entry
                if interrupted:
                    raise asyncio.CancelledError
    finally:
        await completed(_report_purged(connection, names, gone))


async def replay(
    connection: AbstractConnection,
    names: Names,
    turn: Turn,
    wanted: Callable[[ParkedEntry], bool],
    subscriptions: Collection[str],
) -> AsyncGenerator[ParkedEntry | Skipped, None]:
    """Publish every wanted entry again, and yield it once that is confirmed and the entry is acked.

    An entry that cannot be published is yielded as skipped, and the pass goes on.

    Args:
        connection: Connection to the broker, open until the generator is closed.
        names: Names of our queues.
        turn: How to get the lock of the parked queue.
        wanted: Returns whether an entry is to be replayed.
        subscriptions: Ids of all subscriptions, as a worker cancels deliveries of any other.

    Raises:
        QueueInUse: another command has the entries in hand.
        BrokerUnavailable: the broker is away, or refused an entry, which then stays parked.
    """
    writing = Confirms(await opened(connection))
    try:
        async with parked_look(connection, names, turn) as look:
            async for found in entries_of(look):
                if not isinstance(found, Found) or not wanted(found.entry):
                    continue
                again = fitting(publication(found.entry, names, subscriptions), found.entry, writing)
                if isinstance(again, Skipped):
                    yield again
                    continue
                interrupted = await completed(moved(found, again, writing))
                yield found.entry
                if interrupted:
                    raise asyncio.CancelledError
    finally:
        with suppress(*CONNECTION_ERRORS):
            await writing.channel.close()


async def _report_purged(connection: AbstractConnection, names: Names, gone: Sequence[ParkedEntry]) -> None:
    """Report to the workers how long the purged entries were parked; a command has no metrics of its own."""
    now = time.time()
    ages_s = [round(now - entry.parked_at, 3) for entry in gone if entry.delivery is not None]
    with suppress(*CONNECTION_ERRORS):
        for first in range(0, len(ages_s), AGES_AT_ONCE):
            channel = await open_channel(connection, confirms=False)
            body = orjson.dumps({"kind": "purged", "ages_s": ages_s[first : first + AGES_AT_ONCE]})
            await channel.basic_publish(body, exchange=names.control)
            await channel.close()


async def _archived(found: Found, archive: Archive) -> None:
    """Archive an entry, and only then take it out of the queue."""
    await archive.append(entry_as_record(found.entry))
    try:
        await found.held.ack()
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(
            f"{found.entry.id} was archived but may still be parked: {error or type(error).__name__}"
        ) from None


async def moved(found: Found, again: Publication, writing: Confirms) -> None:
    """Publish an entry again, and only after the confirm take it out of the queue."""
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


async def opened(connection: AbstractConnection) -> Channel:
    try:
        return await open_channel(connection, confirms=True)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"no channel to the broker: {error}") from None


async def entries_of(look: Look) -> AsyncIterator[Found | Unreadable]:
    """Yield the entries that were there at the start; later ones are left for the next look."""
    async for held in look.messages():
        raw = raw_message(held.message, look.queue)
        try:
            entry = read_entry(raw)
        except (BadEvent, UnknownVersion, ValueError, OverflowError, TypeError) as error:
            yield Unreadable(raw, str(error) or type(error).__name__)
            continue
        yield Found(entry, held)
    if look.left:
        raise BrokerUnavailable(
            f"{look.left} more entries are parked than one look can hold; purge some first"
        )


def publication(entry: ParkedEntry, names: Names, subscriptions: Collection[str]) -> Publication | Skipped:
    """Return the publication that replays *entry*, or the reason why it stays parked.

    Args:
        entry: A parked delivery or event.
        names: Names of the exchanges and queues.
        subscriptions: Ids of the subscriptions in the store.
    """
    delivery = replayed_delivery(entry, time.time())
    if delivery is not None:
        gone = [target for target in delivery.targets if target not in subscriptions]
        if gone:  # sent to the other targets alone, the entry could not stay for this one
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
        # The events exchange lacks the rules of a source; the source's exchange has other consumers too.
        where = f"the exchange {raw.exchange} of a [[sources]] entry"
        return Skipped(entry.id, f"it came from {where}; publish it there again")
    if raw.exchange in (names.due, names.wait, names.dlx) or names.is_internal(raw.queue):
        # Its exchange and key do not identify its event: published as one, it could reach another tenant.
        return Skipped(entry.id, _OWN.format(raw.queue or raw.exchange))
    if raw.fault is not None:
        return Skipped(entry.id, "its headers could not be read; publish it again with readable headers")
    return _as_published(raw, names)


def fitting(again: Publication | Skipped, entry: ParkedEntry, writing: Confirms) -> Publication | Skipped:
    """Return *again* with headers that fit into a frame, or the reason why the entry stays parked."""
    if isinstance(again, Skipped):
        return again
    try:
        demand_fit(writing.channel, again)
    except FrameTooLarge as error:
        headers = shrunk(again.headers, error.excess_bytes)
        return Skipped(entry.id, str(error)) if headers is None else replace(again, headers=headers)
    return again


def _as_published(raw: RawMessage, names: Names) -> Publication:
    """Return a publication of the raw message to the events exchange, as its producer made it."""
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
