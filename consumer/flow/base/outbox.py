"""Publish until the broker has confirmed; deliveries and parked entries are published here only.

Confirm first, ack after: a source message is acked only once everything here has returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias

from consumer.core.books import Step
from consumer.core.errors import BrokerUnavailable, FrameTooLarge, Refused, Unroutable
from consumer.core.message.delivery import DeliveryMessage, headers_of, short_text
from consumer.core.message.due import rest_s, served
from consumer.core.message.parked import (
    ENTRY,
    ParkedEntry,
    ParkNote,
    delivery_entry_headers,
    raw_entry_headers,
)
from consumer.core.message.records import parked_row
from consumer.core.message.shrink import shrunk
from consumer.core.model import Attempt, Event, ParkReason, RawMessage
from consumer.flow.base.context import HEADERS_BYTES, Context
from consumer.flow.base.open_targets import OpenTargets
from consumer.ports import Publication
from topology.ladder import first_hop_s, next_hop_s

Addressed: TypeAlias = Callable[[], Publication]
"""Makes a publication when its turn has come. Hundreds of failures at once need time to be published, and a
rung that was chosen before would bring the last of them back late."""

DIRECT_S = 0.05  #: a delivery that may be sent this soon takes no rung
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Stored:
    """Addresses a delivery message when its turn has come; an :data:`Addressed` that knows its delivery."""

    message: DeliveryMessage
    address: Addressed

    def __call__(self) -> Publication:
        """Return the publication."""
        return self.address()


class Outbox:
    """Turns decisions of the flow into confirmed publishes."""

    def __init__(self, context: Context, *, patient: bool = False) -> None:
        """Bind to *context*.

        Args:
            context: The ports.
            patient: Wait while the parked queue is full, for entries from overflow; otherwise a refused entry
                goes to overflow.
        """
        self._context = context
        self._patient = patient
        self._names = context.names

    async def confirmed(
        self,
        what: Publication | Addressed,
        *,
        when_refused: str | None = None,
        of: OpenTargets | None = None,
    ) -> None:
        """Publish until it is confirmed; returns only then.

        A returned, refused or unconfirmed publish is tried again after a pause that grows to 5 s: the
        source stays unacked meanwhile, so nothing is lost however long it takes.

        Headers that do not fit into a frame are made smaller. A delivery for which that is not enough is
        parked instead.

        Args:
            what: The publication, or a function that makes it once its turn has come.
            when_refused: Routing key of the next try after a nack, as a full queue causes one.
            of: The targets of the source message. Once that is lost, nothing is tried again. None never gives
                up, and writes no entry in the books.

        Raises:
            BrokerUnavailable: the source message is lost; nothing was confirmed.
            FrameTooLarge: the headers fit into no frame, and *what* is not one delivery.
        """
        await self._context.gate.enter()
        try:
            await self._until_confirmed(what, when_refused, of)
            if of is not None and isinstance(what, Stored):
                of.close(Step.STORED, len(what.message.targets))
        except FrameTooLarge as error:
            if not isinstance(what, Stored):
                raise
            await self.park_delivery(what.message, ParkReason.TOO_LARGE, str(error), of=of)
        finally:
            self._context.gate.leave()

    async def _until_confirmed(
        self, what: Publication | Addressed, when_refused: str | None, of: OpenTargets | None
    ) -> None:
        context, pause_s = self._context, FIRST_PAUSE_S
        failed: BrokerUnavailable | None = None
        while True:
            async with context.turns.turn():
                if failed is not None and of is not None and of.is_lost():
                    raise failed
                publication = what if isinstance(what, Publication) else what()
                try:
                    await context.gate.publish(context.publisher.publish(publication))
                except BrokerUnavailable as error:
                    failed = error
                    if isinstance(what, Stored) and not isinstance(error, Refused | Unroutable):
                        context.attempts.doubt(what.message, context.clock.monotonic())
                except FrameTooLarge as error:
                    what = _fitted(publication, error)
                    continue
                else:
                    return
            context.observe.publish_failed(failed, publication.routing_key, pause_s)
            if isinstance(failed, Refused) and when_refused not in (None, publication.routing_key):
                what = replace(publication, routing_key=str(when_refused))
                continue
            await asyncio.sleep(pause_s * (0.5 + context.sample()))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def stored(self, message: DeliveryMessage, *, direct: bool, look_s: float = inf) -> Stored:
        """Return a function that addresses a delivery message for the wait that is left when its turn comes.

        Args:
            message: The deliveries that are still owed.
            direct: It may go straight to a due queue when almost no wait is left; a failure never does.
            look_s: It comes back after this many seconds or less, so that a worker checks it.
        """

        def address() -> Publication:
            now = self._context.clock.now()
            at_once = direct and rest_s(message, now) <= DIRECT_S
            return self.due_now(message) if at_once else self.waiting(message, now, look_s)

        return Stored(message, address)

    def waiting(self, message: DeliveryMessage, now: float, look_s: float = inf) -> Publication:
        """Address a delivery message to the first rung of its wait; *look_s* as in :meth:`stored`."""
        return self._on_rung(message, self._first_hop_s(min(rest_s(message, now), look_s)))

    def rewaiting(self, message: DeliveryMessage, now: float, look_s: float = inf) -> Publication | None:
        """Address a delivery message that came back early to its next rung; None: the worker holds it.

        *look_s* is as in :meth:`stored`.
        """
        ladder, avoided = self._context.ladder, self._avoided_s()
        rung_s = next_hop_s(rest_s(message, now), message.wait_s, ladder, avoided, exact=message.exact)
        if rung_s is None:
            return None
        return self._on_rung(message, self._first_hop_s(look_s) if rung_s > look_s else rung_s)

    def _first_hop_s(self, wanted_s: float) -> float:
        return first_hop_s(wanted_s, self._context.ladder, self._avoided_s())

    def _avoided_s(self) -> frozenset[float]:
        """Return the rungs that do not give back, or do not confirm, now; TTLs in seconds."""
        return (self._context.avoided | self._context.stuck).rungs_s

    def _on_rung(self, message: DeliveryMessage, rung_s: float) -> Publication:
        key = self._names.wait_key(rung_s, self._due_queue(message))
        event, now = message.event, self._context.clock.monotonic()
        self._context.backlog.shares.add(event.tenant, len(event.body) + HEADERS_BYTES, rung_s, now)
        return self._ours(served(message, rung_s), self._names.wait, key)

    def due_now(self, message: DeliveryMessage) -> Publication:
        """Address a delivery message straight to a due queue, without a rung."""
        return self._ours(message, self._names.due, self._names.direct_key(self._due_queue(message)))

    async def park_delivery(
        self,
        message: DeliveryMessage,
        reason: ParkReason,
        detail: str,
        *,
        of: OpenTargets | None = None,
        failure: Attempt | None = None,
    ) -> None:
        """Park one delivery, confirmed; a full parked queue sends it to overflow.

        Without an attempt of its own the entry carries *failure*, the last one of its endpoint.

        Raises:
            BrokerUnavailable: the source message is lost.
        """
        note = replace(self._note(reason, detail), failure=None if message.attempts else failure)
        event = message.event
        headers = delivery_entry_headers(message, note)
        await self._to_parked(self._entry(event, headers, note), note, of)
        if of is not None:
            of.close(Step.PARKED, len(message.targets))
        entry = _recorded(headers, note, message)
        self._note_parked(entry)
        self._context.observe.parked(
            reason,
            note.detail,
            last=entry.last,
            event_id=event.id,
            tenant=event.tenant,
            subscription_id=" ".join(message.targets),
            attempts=message.attempts_made,
            **({"trace_id": event.trace_id} if event.trace else {}),
        )

    async def park_raw(
        self, raw: RawMessage, reason: ParkReason, detail: str, *, of: OpenTargets | None = None
    ) -> None:
        """Park a producer's message with its raw bytes, confirmed; its targets in flight end with it.

        Raises:
            BrokerUnavailable: the source message is lost.
        """
        note = self._note(reason, detail)
        headers = raw_entry_headers(raw, note)
        await self._to_parked(self._entry(raw, headers, note), note, of)
        if of is not None:
            of.close(Step.PARKED, of.count)
        entry = _recorded(headers, note, raw)
        self._note_parked(entry)
        self._context.observe.parked(reason, note.detail, queue=raw.queue, size_bytes=len(raw.body))

    def _note_parked(self, entry: ParkedEntry) -> None:
        row = parked_row(entry)
        self._context.record.parked(row)
        self._context.notes.parked(row)

    def _entry(self, of: Event | RawMessage, headers: dict[str, object], note: ParkNote) -> Publication:
        return Publication(
            exchange=self._names.dlx,
            routing_key=self._names.parked_key(note.reason.value),
            body=of.body,
            headers=headers,
            content_type=short_text(of.content_type or "application/octet-stream"),
        )

    async def _to_parked(self, entry: Publication, note: ParkNote, of: OpenTargets | None) -> None:
        refused = None if self._patient else self._names.refused_key(note.reason.value)
        await self.confirmed(entry, when_refused=refused, of=of)

    def _ours(self, message: DeliveryMessage, exchange: str, routing_key: str) -> Publication:
        self._context.weight.add(len(message.event.body))
        return Publication(
            exchange=exchange,
            routing_key=routing_key,
            body=message.event.body,
            headers=headers_of(message),
            content_type=short_text(message.event.content_type),
        )

    def _due_queue(self, message: DeliveryMessage) -> str:
        context, number = self._context, hash(message.event.id)
        avoided = context.avoided | context.stuck
        return avoided.due_queue(number, self._names, context.due_queues)

    def _note(self, reason: ParkReason, detail: str) -> ParkNote:
        return ParkNote(
            reason=reason,
            detail=detail,
            at=self._context.clock.now(),
            ttl_s=self._context.bounds.parked_ttl_s,
        )


def _recorded(headers: Mapping[str, object], note: ParkNote, of: DeliveryMessage | RawMessage) -> ParkedEntry:
    """Return the entry as a reader of the parked queue will see it."""
    return ParkedEntry(
        id=str(headers[ENTRY]),
        reason=note.reason,
        detail=note.detail,
        parked_at=note.at,
        ttl_s=note.ttl_s,
        body=b"",
        delivery=of if isinstance(of, DeliveryMessage) else None,
        raw=of if isinstance(of, RawMessage) else None,
        failure=note.failure,
    )


def _fitted(publication: Publication, error: FrameTooLarge) -> Publication:
    """Return *publication* with headers that fit.

    Raises:
        FrameTooLarge: everything that is left is necessary.
    """
    headers = shrunk(publication.headers, error.excess_bytes)
    if headers is None:
        raise error
    return replace(publication, headers=headers)


async def together(steps: Sequence[Awaitable[None]]) -> None:
    """Return once each of *steps* has ended, so that none goes on when its message is given up.

    Raises:
        Exception: the first one that a step raised.
    """
    if len(steps) == 1:
        await steps[0]
    elif steps:
        for error in await asyncio.gather(*steps, return_exceptions=True):
            if error is not None:
                raise error


def age_text(message: DeliveryMessage, now: float) -> str:
    """Return how old a delivery became, as the detail of an expired entry."""
    age_s = now - message.event.arrived_at
    return f"not delivered within its time: {age_s:.0f} s old after {message.attempts_made} attempts"
