"""List waiting deliveries on the rungs, send them at once, or cancel them, over AMQP alone.

One pass per rung (:mod:`consumer.edges.broker.look`) takes every message of it without an ack. Wanted
deliveries are published, or archived, and acked only after that is confirmed. All others go back, with their
TTL still counted from the first publish. No message of the rung expires meanwhile.

The longest rungs come first, as a message that moves down meanwhile is then met again.

A message may carry a check of a worker (:mod:`consumer.core.returns`). The check stays with the part that is
published again; without such a part it goes to the due queue alone, so that no worker misses it. A message of
only a check stays where it is.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel

from consumer.core.errors import BadEvent, BrokerUnavailable
from consumer.core.message.delivery import DeliveryMessage, UnknownVersion, headers_of, read_delivery
from consumer.core.message.due import off_rung, rest_s, served
from consumer.core.message.waiting import Wanted, as_record, kicked, split
from consumer.core.returns.check_headers import CHECK, check_headers, check_of, is_only_check
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.broker.look import WHOLE, Held, completed, look_into
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.edges.broker.wire.raw_message import raw_message
from consumer.edges.operate.control import report_to_workers
from consumer.ports import Archive, Publication
from topology.ladder import Ladder, first_hop_s
from topology.names import Names

REPORTED_MAX: Final = 1_000  #: subscriptions in a report to the workers, which remember no more of them


@dataclass(frozen=True, slots=True)
class WaitQueues:
    """Names and delays of the queues in which our delivery messages wait."""

    names: Names
    ladder: Ladder


@dataclass(frozen=True, slots=True)
class Waiting:
    """The wanted targets of one delivery message."""

    message: DeliveryMessage
    is_whole: bool = True  #: the message has no other targets


@dataclass(frozen=True, slots=True)
class Unread:
    """Messages of a queue that a pass could not read."""

    queue: str
    count: int
    why: str


async def browse(
    connection: AbstractConnection, queues: WaitQueues, wanted: Wanted
) -> AsyncGenerator[Waiting | Unread, None]:
    """Yield the wanted deliveries on the ladder; nothing changes but delivery counts.

    Raises:
        BrokerUnavailable: the broker is away or a rung does not exist.
    """
    async with aclosing(_passes(connection, queues, wanted)) as passes:
        async for taken in passes:
            yield taken if isinstance(taken, Unread) else Waiting(taken.meant)


async def kick(
    connection: AbstractConnection, queues: WaitQueues, wanted: Wanted
) -> AsyncGenerator[Waiting | Unread, None]:
    """Send the wanted deliveries to their due queues, and yield each once that is confirmed.

    Raises:
        BrokerUnavailable: the broker is away, or refused a delivery, which then stays waiting.
    """

    async def send(taken: _Taken, writing: Confirms) -> None:
        key = queues.names.direct_key(taken.due_queue)
        sent = _ours(kicked(taken.meant, time.time()), queues.names.due, key)
        await _publish(writing, taken.checked(sent) if taken.others is None else sent)

    moved = _taken_out(connection, queues, wanted, send)
    async with aclosing(_reported("kicked", connection, queues.names, wanted, moved)) as reported:
        async for each in reported:
            yield each


async def cancel(
    connection: AbstractConnection, queues: WaitQueues, wanted: Wanted, archive: Archive
) -> AsyncGenerator[Waiting | Unread, None]:
    """Archive the wanted deliveries, take them off their rungs, and yield each.

    Raises:
        BrokerUnavailable: the broker is away; a delivery may be archived and still wait.
        OSError: the disk refused a delivery, which then stays waiting.
    """

    async def keep(taken: _Taken, writing: Confirms) -> None:
        for target in taken.meant.targets:
            await archive.append(as_record(taken.meant, target))
        if taken.others is None and taken.check is not None:
            key = queues.names.direct_key(taken.due_queue)
            only = Publication(exchange=queues.names.due, routing_key=key, body=b"")
            await _publish(writing, replace(only, headers=check_headers(taken.check)))

    ended = _taken_out(connection, queues, wanted, keep)
    async with aclosing(_reported("cancelled", connection, queues.names, wanted, ended)) as reported:
        async for each in reported:
            yield each


@dataclass(slots=True)
class _Left:
    """The number of deliveries that left the ladder."""

    targets: int = 0
    messages: int = 0
    by_subscription: Counter[str] = field(default_factory=Counter)
    unread: int = 0  #: messages that could not be read, and stayed

    def count(self, each: Waiting | Unread) -> None:
        """Count the targets of one message."""
        if isinstance(each, Waiting):
            self.targets += len(each.message.targets)
            self.messages += each.is_whole
            self.by_subscription.update(each.message.targets)
        else:
            self.unread += 1


async def _reported(
    how: str,
    connection: AbstractConnection,
    names: Names,
    wanted: Wanted,
    taken_out: AsyncGenerator[Waiting | Unread, None],
) -> AsyncGenerator[Waiting | Unread, None]:
    """Pass on each message that was *taken_out*, and report them to the workers, whatever ends the pass.

    A command has no books. The leading worker notes cancelled deliveries in its books, and each worker counts
    its share as waiting no longer.
    """
    left, is_whole = _Left(), False
    try:
        async with aclosing(taken_out):
            async for each in taken_out:
                left.count(each)
                yield each
        is_whole = not left.unread and wanted.event is None
    finally:
        await completed(_report(how, connection, names, left, wanted if is_whole else None))


async def _report(
    how: str, connection: AbstractConnection, names: Names, left: _Left, whole: Wanted | None
) -> None:
    """Send the counts to the workers; *whole* names the wanted deliveries if none of them stayed."""
    if not left.targets and whole is None:
        return
    counts = {"targets": left.targets, "messages": left.messages} if how == "cancelled" else {}
    of = dict(left.by_subscription.most_common(REPORTED_MAX))
    body = {"kind": how, **counts, "of": of, "whole": whole is not None}
    if whole is not None:  # those that had left their rungs before are gone from there too
        body |= {"tenant": whole.tenant, "subscription": whole.subscription}
    await report_to_workers(connection, names, body)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A message in hand with at least one wanted target."""

    meant: DeliveryMessage
    others: DeliveryMessage | None
    rung_s: float  #: delay of the rung from which it was taken
    due_queue: str
    held: Held
    check: str | None  #: the check on it

    def checked(self, publication: Publication) -> Publication:
        """Return *publication* with the check of the message."""
        if self.check is None:
            return publication
        return replace(publication, headers={**publication.headers, CHECK: self.check})

    async def settle(self, writing: Confirms, queues: WaitQueues) -> None:
        """Publish the unwanted targets again, confirmed, and only then ack."""
        if self.others is not None:
            others = off_rung(self.others, self.rung_s)
            rung_s = first_hop_s(rest_s(others, time.time()), queues.ladder)
            key = queues.names.wait_key(rung_s, self.due_queue)
            await _publish(writing, self.checked(_ours(served(others, rung_s), queues.names.wait, key)))
        try:
            await self.held.ack()
        except CONNECTION_ERRORS as error:
            raise BrokerUnavailable(
                f"{self.meant.event.id} was handled but may still wait: {error or type(error).__name__}"
            ) from None


async def _taken_out(
    connection: AbstractConnection,
    queues: WaitQueues,
    wanted: Wanted,
    first: Callable[[_Taken, Confirms], Awaitable[None]],
) -> AsyncGenerator[Waiting | Unread, None]:
    """Run *first* for each message with wanted targets, then take it off its rung and yield it."""
    writing = Confirms(await _opened(connection))

    async def handle(taken: _Taken) -> None:
        await first(taken, writing)
        await taken.settle(writing, queues)

    try:
        async with aclosing(_passes(connection, queues, wanted)) as passes:
            async for taken in passes:
                if isinstance(taken, Unread):
                    yield taken
                    continue
                interrupted = await completed(handle(taken))
                yield Waiting(taken.meant, taken.others is None)
                if interrupted:
                    raise asyncio.CancelledError
    finally:
        with suppress(*CONNECTION_ERRORS):
            await writing.channel.close()


async def _passes(
    connection: AbstractConnection, queues: WaitQueues, wanted: Wanted
) -> AsyncGenerator[_Taken | Unread, None]:
    for rung_s in sorted(queues.ladder.rungs_s, reverse=True):
        queue = queues.names.rung(rung_s)
        unreadable: list[str] = []
        async with look_into(connection, queue, WHOLE) as look:  # only the head of a rung expires
            async for held in look.messages():
                raw = raw_message(held.message, queue)
                if is_only_check(raw.headers):
                    continue
                try:
                    parted = split(read_delivery(raw), wanted)
                except (BadEvent, UnknownVersion) as error:
                    unreadable.append(str(error) or type(error).__name__)
                    continue
                if parted.wanted is not None:
                    due_queue = raw.routing_key.partition(".")[2]
                    check = check_of(raw.headers)
                    yield _Taken(parted.wanted, parted.others, rung_s, due_queue, held, check)
        if look.left:
            yield Unread(queue, look.left, "the rung holds more messages than one pass can take")
        if unreadable:
            yield Unread(queue, len(unreadable), unreadable[0])


async def _publish(channel: Confirms, publication: Publication) -> None:
    try:
        await channel.publish(publication, uuid.uuid4().hex)
    except CONNECTION_ERRORS as error:
        event = publication.headers.get("leveret-event")
        raise BrokerUnavailable(f"{event} waits on: {error or type(error).__name__}") from None


def _ours(message: DeliveryMessage, exchange: str, routing_key: str) -> Publication:
    return Publication(
        exchange=exchange,
        routing_key=routing_key,
        body=message.event.body,
        headers=headers_of(message),
        content_type=message.event.content_type,
    )


async def _opened(connection: AbstractConnection) -> Channel:
    try:
        return await open_channel(connection, confirms=True)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"no channel to the broker: {error}") from None
