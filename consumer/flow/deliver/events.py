"""Take an event to its fan-out: decode, readdress, match, split.

Data flow: RawMessage -> Event -> matched subscriptions -> FanOut; or the inbox hop, or parked.
"""

from __future__ import annotations

from collections.abc import Sequence

from consumer.core.books import Step
from consumer.core.errors import FrameTooLarge
from consumer.core.event.decode import NeedsInbox, decode_event
from consumer.core.event.seen_events import Seen, SeenEvents
from consumer.core.message.delivery import DeliveryMessage, short_text
from consumer.core.model import Event, ParkReason, RawMessage
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.ids import uuid7
from consumer.flow.base.context import Context
from consumer.flow.base.outbox import Outbox, age_text, together
from consumer.flow.deliver.fan_out import FanOut
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.take.job import Job
from consumer.ports import Publication, Source
from consumer.tracing_ports import EventResult, EventTaken

LOOK_S = 0.25  #: a repeated event is looked at again after so long while the first one is being handled


class Events:
    """Works off the messages of producers."""

    def __init__(self, context: Context, subscriptions: Subscriptions, fan_out: FanOut) -> None:
        self._context = context
        self._subscriptions = subscriptions
        self._fan_out = fan_out
        self._outbox = Outbox(context)
        window_s = context.bounds.dedupe_window_s
        self._seen = SeenEvents(window_s) if window_s else None

    async def handle(self, job: Job, raw: RawMessage) -> None:
        """Take one event to its end.

        Raises:
            BadEvent: the message cannot become an event; the caller parks it as it came.
        """
        context, now = self._context, self._context.clock.now()
        decoded = decode_event(raw, context.decode, now)
        if isinstance(decoded, NeedsInbox):
            await self._readdress(job, decoded, now)
            return
        if context.tracer.is_on:
            await self._handle_traced(job, raw, decoded)
        else:
            await self._handle(job, decoded)

    async def _handle_traced(self, job: Job, raw: RawMessage, event: Event) -> None:
        """Take an event to its end, and record the span of that."""
        context, result = self._context, EventResult.GIVEN_BACK
        try:
            result = await self._handle(job, event)
        except FrameTooLarge:  # the caller parks it
            result = EventResult.PARKED
            raise
        finally:
            if result is not EventResult.HELD:
                result = EventResult.GIVEN_BACK if job.lost() else result  # its ack got lost
                context.tracer.taken(EventTaken(event, raw, result, context.clock.now()))

    async def _handle(self, job: Job, event: Event) -> EventResult:
        """Take an event to its end."""
        seen = None if job.source is Source.SUSPECT else self._seen
        if seen is None or not self._subscriptions.match(event.tenant, event.type):
            return EventResult.MATCHED if await self._take(job, event) else EventResult.UNMATCHED
        return await self._take_once(seen, job, event)

    async def _take_once(self, seen: SeenEvents, job: Job, event: Event) -> EventResult:
        """Take an event to its end, unless a message with its id was acked within the window."""
        context, clock = self._context, self._context.clock
        known = seen.begin(event, clock.monotonic())
        if known is Seen.DONE:
            return await self._suppress(job, event)
        if known is Seen.RUNNING:  # its end decides; if no more can be held, the event is sent twice
            if job.hold(LOOK_S):
                return EventResult.HELD
            return EventResult.MATCHED if await self._take(job, event) else EventResult.UNMATCHED
        result = None  #: MATCHED or DUPLICATE once nothing is owed for the event any more
        try:
            if context.settled is not None and await context.settled.knows(event):
                result = await self._suppress(job, event)
            elif await self._take(job, event):
                result = EventResult.MATCHED
                if context.settled is not None:
                    context.notes.settled(event)
        finally:
            seen.end(event, clock.monotonic(), acked=result is not None)
        return EventResult.UNMATCHED if result is None else result

    async def _suppress(self, job: Job, event: Event) -> EventResult:
        """Ack a repeated event."""
        self._context.observe.event_repeated(event)
        await job.ack()
        return EventResult.DUPLICATE

    async def _take(self, job: Job, event: Event) -> bool:
        """Match an event and take it to its end; acked at the end. Return whether a subscription wants it."""
        context = self._context
        targets = self._subscriptions.match(event.tenant, event.type)
        if not targets:
            context.notes.received(event, 0)
            context.observe.unmatched.event(event, context.clock.monotonic())
            await job.ack()
            return False
        await self._deliver(job, event, targets, context.clock.now())
        return True

    async def _deliver(self, job: Job, event: Event, targets: Sequence[Subscription], now: float) -> None:
        """Send an event to its targets, or park or split it; acked at the end."""
        context = self._context
        context.observe.event_matched(event)
        context.notes.received(event, len(targets))
        if event.expires_at is not None and now >= event.expires_at:
            await self._expire(job, event, targets, now)
            return
        if len(targets) > context.bounds.max_targets_per_message:
            await self._split(job, event, targets)
            return
        await self._fan_out.run(job, DeliveryMessage(event=event, targets=()), targets)

    async def _expire(self, job: Job, event: Event, targets: Sequence[Subscription], now: float) -> None:
        """Park all deliveries of an event whose expiration passed before a worker took it."""
        single = [DeliveryMessage(event=event, targets=(s.id,)) for s in targets]
        park = self._outbox.park_delivery
        job.targets.open(len(targets))
        await together([park(m, ParkReason.EXPIRED, age_text(m, now), of=job.targets) for m in single])
        await job.ack()

    async def _readdress(self, job: Job, needs: NeedsInbox, now: float) -> None:
        """Publish the message once more with an id and a tenant (the inbox hop), confirm, then ack."""
        event_id = needs.message_id or uuid7(int(now * 1000), self._context.random_bytes(10))
        await self._outbox.confirmed(
            Publication(
                exchange=self._context.names.events,
                routing_key=short_text(needs.routing_key),
                body=needs.body,
                headers=needs.headers,
                content_type=short_text(needs.content_type or "application/json"),
                message_id=event_id,
                type=_short(needs.type),
                timestamp_s=needs.timestamp_s,
                app_id=_short(needs.app_id),
                correlation_id=_short(needs.correlation_id),
            ),
            of=job.targets,
        )
        self._context.observe.event_readdressed(event_id, job.incoming.message.queue)
        await job.ack()

    async def _split(self, job: Job, event: Event, targets: Sequence[Subscription]) -> None:
        """Turn an event with very many targets into delivery messages of at most 100 each."""
        size = self._context.bounds.max_targets_per_message
        ids = [s.id for s in targets]
        job.targets.open(len(ids))
        parts = [tuple(ids[i : i + size]) for i in range(0, len(ids), size)]
        await together([self._store(job, DeliveryMessage(event=event, targets=part)) for part in parts])
        await job.ack()

    async def _store(self, job: Job, part: DeliveryMessage) -> None:
        await self._outbox.confirmed(self._outbox.due_now(part), of=job.targets)
        job.targets.close(Step.STORED, len(part.targets))


def _short(text: str | None) -> str | None:
    """Cut a text to the length of AMQP's short strings; escaping may have made it longer."""
    return None if text is None else short_text(text)
