"""Turn raw dead letters into parked entries, and archive entries whose time is over.

Data flow: leveret.overflow -> parked entry -> leveret.parked; leveret.expired -> archive file.
Of each kind one message is worked off at a time: while the parked queue is full, dead letters wait for room,
and expired entries are archived all the same. A message is given back before the broker's consumer timeout
would take it away.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from consumer.core.errors import BadEvent, BrokerUnavailable
from consumer.core.message.delivery import (
    UnknownVersion,
    demand_readable,
    is_ours,
    is_wrapped,
    read_delivery,
    unwrap_raw,
)
from consumer.core.message.parked import entry_as_dict, origin_of, parked_for_s, read_entry
from consumer.core.model import ParkReason, RawMessage
from consumer.flow.base.context import Context
from consumer.flow.base.open_targets import OpenTargets
from consumer.flow.base.outbox import LONGEST_PAUSE_S, Outbox
from consumer.flow.deliver.deaths import last_death, was_moved
from consumer.ports import Archive, Incoming, Publication
from consumer.tasks import until_one_ends

PATIENCE_S = 600.0
"""How long one message waits unacked for room in the parked queue; then the broker gives it out again.

Source: RabbitMQ "Consumers", delivery acknowledgement timeout (30 min by default, then the channel closes).
"""

GARBLED = (UnknownVersion, ValueError, OverflowError, TypeError)
"""Errors of reading or rewriting a message that a newer worker or another application wrote."""

REASONS: Mapping[str, tuple[ParkReason, str]] = {
    "delivery_limit": (ParkReason.POISON, "it came back to workers too often without being settled"),
    "expired": (ParkReason.EXPIRED, "its own expiration passed while it was in a queue"),
    "rejected": (ParkReason.UNDELIVERABLE, "a consumer rejected it"),
    "maxlen": (ParkReason.UNDELIVERABLE, "its queue was over a length limit"),
}
"""The meaning of the broker's dead-letter reasons. Source: RabbitMQ "Dead Letter Exchanges"."""

UNTOLD = "the broker gave up on it, and no queue of Leveret's can have written its x-death"


class _Desk:
    """The messages of one kind, and the lock that is held while one is worked off."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Incoming] = asyncio.Queue()
        self.busy = asyncio.Lock()  #: held while a message is worked off, and for ever after a stop

    async def work(self, work_off: Callable[[Incoming], Awaitable[None]]) -> None:
        """Work for ever, one message after the other."""
        while True:
            incoming = await self.waiting.get()
            async with self.busy:
                if incoming.ticket.alive():
                    await work_off(incoming)


class DeadLetters:
    """Works off the overflow and expired queues, side by side."""

    def __init__(self, context: Context, archive: Archive) -> None:
        self._context = context
        self._archive = archive
        self._outbox = Outbox(context, patient=True)
        self._dead = _Desk()
        self._expired = _Desk()
        self._leaving = False
        self._given_back = 0  #: messages, since the start

    def offer(self, incoming: Incoming, *, expired: bool) -> None:
        """Take one message of the overflow queue, or of the expired queue."""
        desk = self._expired if expired else self._dead
        desk.waiting.put_nowait(incoming)

    async def run(self) -> None:
        """Work for ever.

        Raises:
            Exception: one of both ended, in whatever way: the owner of this routine has to learn of it.
        """
        desks = [
            asyncio.create_task(self._dead.work(self._work_off_dead), name="overflow"),
            asyncio.create_task(self._expired.work(self._work_off_expired), name="expired"),
        ]
        await until_one_ends(desks)

    async def leave(self, limit_s: float) -> int:
        """Begin nothing more; return once the present messages are settled, or after *limit_s*.

        Messages that were not begun are given back, and so is one that waits for room in the parked queue. A
        publish under way is waited for: without its ack the broker would give out a parked message again.

        Returns:
            How many messages were given back.
        """
        self._leaving, before = True, self._given_back
        desks = (self._dead, self._expired)
        for desk in desks:
            while not desk.waiting.empty():
                await self._give_back(desk.waiting.get_nowait())
        ended = await asyncio.gather(*(_acquired(desk.busy, limit_s) for desk in desks))
        if not all(ended):
            self._context.observe.warned("drain.abandoned", unsettled=ended.count(False))
        return self._given_back - before

    async def _work_off_dead(self, incoming: Incoming) -> None:
        targets = OpenTargets(self._context.books, self._impatience(incoming))
        try:
            await self._work_off(incoming, targets, self._park(incoming.message, targets))
        finally:
            targets.give_back()

    async def _work_off_expired(self, incoming: Incoming) -> None:
        none = OpenTargets(self._context.books, lambda: False)  # an entry ended when it was parked
        await self._work_off(incoming, none, self._archive_entry(incoming.message))

    async def _work_off(self, incoming: Incoming, targets: OpenTargets, work: Awaitable[None]) -> None:
        try:
            await work
            if incoming.ticket.alive():
                targets.acked()
            await incoming.ticket.ack()
        except BrokerUnavailable:  # given up; every try was counted and logged
            await self._give_back(incoming)
        except Exception as error:  # a full disk, a newer format or a bug: the others go on
            self._context.observe.task_failed("overflow", error)
            await asyncio.sleep(LONGEST_PAUSE_S)
            await self._give_back(incoming)

    async def _give_back(self, incoming: Incoming) -> None:
        self._given_back += 1
        await incoming.ticket.requeue()

    def _impatience(self, incoming: Incoming) -> Callable[[], bool]:
        clock, ticket = self._context.clock, incoming.ticket
        until = clock.monotonic() + PATIENCE_S
        return lambda: self._leaving or not ticket.alive() or clock.monotonic() > until

    async def _park(self, raw: RawMessage, targets: OpenTargets) -> None:
        """Park a readable message by its kind, and any other with its raw bytes: no message may stay."""
        try:
            demand_readable(raw)
            if raw.routing_key.startswith("refused."):
                await self._park_refused(raw, targets)
            else:
                await self._park_dead(raw, targets)
        except BadEvent as bad:
            await self._outbox.park_raw(raw, ParkReason(bad.reason), bad.detail, of=targets)
        except GARBLED as error:
            detail = _unreadable(error)
            await self._outbox.park_raw(raw, ParkReason.MALFORMED, detail, of=targets)

    async def _park_dead(self, raw: RawMessage, targets: OpenTargets) -> None:
        outbox, names = self._outbox, self._context.names
        death = last_death(raw, names)
        if death is None:
            await outbox.park_raw(raw, ParkReason.UNDELIVERABLE, UNTOLD, of=targets)
            return
        reason, detail = REASONS.get(death.reason, (ParkReason.UNDELIVERABLE, "the broker gave up on it"))
        detail = f"{detail} (queue {death.queue})"
        own = names.is_internal(death.queue)
        if is_wrapped(raw) and (own or was_moved(death, names)):
            await outbox.park_raw(unwrap_raw(raw), reason, detail, of=targets)
        elif own and is_ours(raw):
            message = read_delivery(raw)
            targets.read(origin_of(raw))
            targets.open(len(message.targets))
            for target in message.targets:
                single = replace(message, targets=(target,))
                await outbox.park_delivery(single, reason, detail, of=targets)
        else:
            published = replace(
                raw, exchange=death.exchange, routing_key=death.routing_key, queue=death.queue
            )
            await outbox.park_raw(published, reason, detail, of=targets)

    async def _park_refused(self, raw: RawMessage, targets: OpenTargets) -> None:
        """Publish an entry that a full parked queue refused, until there is room."""
        headers = {k: v for k, v in raw.headers.items() if k.startswith("leveret-")}
        reason = raw.routing_key.partition(".")[2]
        await self._outbox.confirmed(
            Publication(
                exchange=self._context.names.dlx,
                routing_key=self._context.names.parked_key(reason),
                body=raw.body,
                headers=headers,
                content_type=raw.content_type or "application/octet-stream",
            ),
            of=targets,
        )

    async def _archive_entry(self, raw: RawMessage) -> None:
        entry_id = None
        try:
            entry = read_entry(raw)
            entry_id, shown = entry.id, entry_as_dict(entry)
        except BadEvent as bad:
            shown = _shown_raw(raw, bad.detail)
        except (*GARBLED, OSError) as error:  # OSError: a time that the platform cannot format
            shown = _shown_raw(raw, _unreadable(error))
        shown["body_base64"] = base64.b64encode(raw.body).decode()
        await self._archive.append(shown)
        if entry_id is not None:
            self._context.record.unparked(entry_id)
        self._context.observe.entry_expired(shown, parked_for_s(raw, self._context.clock.now()))


async def _acquired(lock: asyncio.Lock, limit_s: float) -> bool:
    try:
        await asyncio.wait_for(lock.acquire(), limit_s)
    except TimeoutError:
        return False
    return True


def _unreadable(error: Exception) -> str:
    return f"cannot be read by this worker: {error!r}"


def _shown_raw(raw: RawMessage, detail: str) -> dict[str, object]:
    """Return all fields of an unreadable entry: another worker, or a person, may still read it."""
    return {
        "reason": ParkReason.MALFORMED.value,
        "detail": detail,
        "routing_key": raw.routing_key,
        "content_type": raw.content_type,
        "message_id": raw.message_id,
        "headers": dict(raw.headers),
    }
