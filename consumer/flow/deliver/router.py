"""Take one message to its end, on a path chosen by its source; every path settles exactly once.

Data flow: Job -> Events (a producer's message) or a delivery message -> FanOut -> acked. Unreadable messages
are parked, messages that kill workers go to suspect, and messages that come early take a further rung.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from consumer.core.endpoint.breaker import Closed, Open
from consumer.core.errors import BadEvent, BrokerUnavailable, FrameTooLarge
from consumer.core.event.seen_events import Seen
from consumer.core.message.delivery import (
    DeliveryMessage,
    UnknownVersion,
    demand_readable,
    is_moved,
    is_ours,
    is_wrapped,
    own_headers,
    read_delivery,
    short_text,
    unwrap_raw,
    wrap_raw,
)
from consumer.core.message.due import late_s, rest_s, served
from consumer.core.message.parked import origin_of, parked_for_s, rfc3339
from consumer.core.model import ParkReason, RawMessage
from consumer.core.retry.policy import deadline
from consumer.flow.base.cancelled import is_asked_to_end
from consumer.flow.base.context import Context
from consumer.flow.base.outbox import Outbox, Stored, age_text, together
from consumer.flow.deliver.events import LOOK_S, Events
from consumer.flow.deliver.fan_out import FanOut
from consumer.flow.deliver.orphans import Orphans
from consumer.flow.endpoints.endpoint import Endpoint
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.take.intake import Intake
from consumer.flow.take.job import OWN_SOURCES, Job
from consumer.ports import Publication, Source
from topology.names import SUSPECT_KEY

UNKNOWN_VERSION_WAIT_S = 30.0  #: longest rung on which a newer worker's message waits for such a worker


class Router:
    """Works off one job at a time; many run side by side."""

    def __init__(self, context: Context, subscriptions: Subscriptions, endpoints: Endpoints) -> None:
        self._context = context
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._outbox = Outbox(context)
        self.intake = Intake(context, self.handle)
        self._fan_out = FanOut(context, subscriptions, endpoints, self.intake.slots)
        self._events = Events(context, subscriptions, self._fan_out)
        self._orphans = Orphans(context, subscriptions)

    async def handle(self, job: Job) -> None:
        """Take *job* to its end: every path acks, requeues or holds the message exactly once."""
        context, raw = self._context, job.incoming.message
        unread = raw.delivery_count >= context.bounds.suspect_after and job.source is not Source.SUSPECT
        unread = unread and raw.fault is None
        try:
            try:
                await (self._move_to_suspect(job) if unread else self._dispatch(job, raw))
            except FrameTooLarge as error:
                await self._park_too_large(job, raw, str(error))
        except BrokerUnavailable:  # given up: the broker gives the message out again
            await job.requeue()
        except asyncio.CancelledError as error:
            if is_asked_to_end():
                raise
            context.observe.task_failed("job", error)  # a call that was cancelled by somebody else
            await job.reject()
        except Exception as error:  # a bug: the message comes again, and goes to suspect if that repeats
            context.observe.task_failed("job", error)
            await job.reject()
        finally:
            job.targets.give_back()  # of a message whose ack got lost

    async def _dispatch(self, job: Job, raw: RawMessage) -> None:
        """Take the path of the source; park an unreadable message as its producer sent it."""
        suspect = job.source is Source.SUSPECT
        wrapped = is_wrapped(raw) and (suspect or self._came_from_us(job))
        try:
            raw = unwrap_raw(raw) if wrapped else raw
            demand_readable(raw)
            if not wrapped and (suspect or job.source in OWN_SOURCES):
                await self._handle_delivery(job)
            else:
                await self._events.handle(job, raw)
        except BadEvent as bad:
            await self._outbox.park_raw(raw, ParkReason(bad.reason), bad.detail, of=job.targets)
            await job.ack()

    def requests(self) -> int:
        """Return the number of HTTP requests in flight."""
        return self._fan_out.attempts.in_flight()

    def oldest_at(self) -> float:
        """Return the oldest arrival among the events of the requests in flight, Unix seconds; inf: none."""
        return self._fan_out.attempts.oldest_at()

    def cut(self) -> int:
        """Cut off every request in flight; each becomes a delivery message. Return how many."""
        return self._fan_out.attempts.cut()

    def _came_from_us(self, job: Job) -> bool:
        """Return whether Leveret published the message; if its spill queue was missing, it comes by stray."""
        due = self._context.names.due
        return job.source in OWN_SOURCES or (
            job.source is Source.SPILL and is_moved(job.incoming.message, due)
        )

    async def _move_to_suspect(self, job: Job) -> None:
        raw = job.incoming.message
        ours = self._came_from_us(job)
        await self._outbox.confirmed(
            Publication(
                exchange=self._context.names.dlx,
                routing_key=SUSPECT_KEY,
                body=raw.body,
                headers=own_headers(raw) if ours else wrap_raw(raw),
                content_type=short_text(raw.content_type or "application/octet-stream"),
            ),
            of=job.targets,
        )
        self._context.observe.message_suspected(raw.queue, raw.delivery_count)
        await job.ack()

    async def _park_too_large(self, job: Job, raw: RawMessage, detail: str) -> None:
        """Park a message that must be published again, and whose headers do not fit into a frame."""
        reason, ours = ParkReason.TOO_LARGE, self._came_from_us(job) or job.source is Source.SUSPECT
        if is_wrapped(raw) and ours:
            await self._outbox.park_raw(unwrap_raw(raw), reason, detail, of=job.targets)
        elif ours and is_ours(raw):
            message = read_delivery(raw)
            each = [replace(message, targets=(target,)) for target in message.targets]
            job.targets.read(origin_of(raw))
            job.targets.open(len(each) - job.targets.count)
            park = self._outbox.park_delivery
            await together([park(single, reason, detail, of=job.targets) for single in each])
        else:
            await self._outbox.park_raw(raw, reason, detail, of=job.targets)
        await job.ack()

    async def _handle_delivery(self, job: Job) -> None:
        raw, now = job.incoming.message, self._context.clock.now()
        try:
            message = read_delivery(raw)
        except UnknownVersion:
            await self._leave_to_newer(job, raw)
            return
        job.targets.read(origin_of(raw))
        message = served(message, job.held_s) if job.held_s else message
        if rest_s(message, now) > 0 and not self._fan_out.is_freed(message, now):
            await self._wait_on(job, message, now)
            return
        owed = await self._not_settled(job, message)
        if owed is None:
            return
        settled: Sequence[str] = ()
        try:
            settled = await self._deliver(job, self._grace(owed, now), now)
        finally:
            self._context.attempts.end(message, owed.targets, settled)

    async def _not_settled(self, job: Job, message: DeliveryMessage) -> DeliveryMessage | None:
        """Return the message for the targets whose attempt is not settled; None where none is owed now.

        Copies of one message that come at the same time are handled one after the other.
        """
        attempts = self._context.attempts
        states = {target: attempts.begin(message, target) for target in message.targets}
        owed = [target for target, state in states.items() if state is not Seen.DONE]
        if Seen.RUNNING in states.values() and job.hold(LOOK_S):
            attempts.end(message, [t for t in owed if states[t] is Seen.NEW], ())
            return None
        for target in states.keys() - owed:
            self._context.observe.delivery_repeated(message, target)
        if owed or not states:
            return message if len(owed) == len(message.targets) else replace(message, targets=tuple(owed))
        job.started(takes_slot=False)
        await job.ack()
        return None

    async def _deliver(self, job: Job, message: DeliveryMessage, now: float) -> Sequence[str]:
        """Bring each target to its end; return those whose attempt is settled."""
        subscriptions, ends, ended = [], [], list[str]()
        for target in message.targets:
            subscription = self._subscriptions.get(target)
            end = self._ended_without_request(job, message, target, now)
            if end is not None:
                ends.append(end)
                if subscription is not None:  # the delivery of an unknown one may wait on, unchanged
                    ended.append(target)
            elif subscription is not None:
                subscriptions.append(subscription)
        if not subscriptions:
            job.started(takes_slot=False)
        job.targets.open(len(ends))
        await together(ends)
        if job.source is Source.REPLAY:
            age_s = parked_for_s(job.incoming.message, now)
            self._context.observe.replayed(message.event.tenant, age_s)
            self._context.notes.replayed(message, age_s)
        if subscriptions:
            self._context.observe.tenant_job(message.event.tenant)
            return [*ended, *await self._fan_out.run(job, message, subscriptions)]
        await job.ack()
        return ended

    def _ended_without_request(
        self, job: Job, message: DeliveryMessage, target: str, now: float
    ) -> Coroutine[Any, Any, None] | None:
        """Return the step that ends a target which must not be sent any more; None where it may be sent."""
        event, subscription = message.event, self._subscriptions.get(target)
        if subscription is None:
            return self._orphans.end(job, message, target, now)
        if not subscription.enabled:
            reason, detail = ParkReason.DISABLED, "the subscription is disabled"
        elif subscription.locked is not None:
            reason, detail = ParkReason.LOCKED, subscription.locked
        elif now >= deadline(subscription.retry, event.arrived_at, event.expires_at, message.late_s):
            reason, detail = ParkReason.EXPIRED, age_text(message, now)
        else:
            return None
        single, failure = replace(message, targets=(target,)), None
        endpoint = self._endpoints.met(subscription)
        if endpoint is not None:
            detail, failure = detail + outage_text(endpoint), endpoint.last_failure
        return self._outbox.park_delivery(single, reason, detail, of=job.targets, failure=failure)

    def _grace(self, message: DeliveryMessage, now: float) -> DeliveryMessage:
        """Extend the deadline for one more try where the message comes late, as after a jump of the clock."""
        event, known = message.event, (self._subscriptions.get(target) for target in message.targets)
        ends = (deadline(s.retry, event.arrived_at, None, message.late_s) for s in known if s is not None)
        late = late_s(message, ends, now)
        return message if late == message.late_s else replace(message, late_s=late)

    async def _wait_on(self, job: Job, message: DeliveryMessage, now: float) -> None:
        """Send a message that came back early to its next rung, or hold it here for the rest of its wait."""
        if message.held:
            self._context.observe.still_held(message)
        onward = self._outbox.rewaiting(message, now, self._fan_out.look_s(message, now))
        if onward is None:
            if job.hold(rest_s(message, now)):
                return
            onward = self._outbox.waiting(message, now)
        job.targets.open(len(message.targets))
        await self._outbox.confirmed(Stored(message, lambda: onward), of=job.targets)
        await job.ack()

    async def _leave_to_newer(self, job: Job, raw: RawMessage) -> None:
        names, context = self._context.names, self._context
        rung_s = max(
            r for r in context.ladder.rungs_s if r <= UNKNOWN_VERSION_WAIT_S or r == context.ladder.rungs_s[0]
        )
        await self._outbox.confirmed(
            Publication(
                exchange=names.wait,
                routing_key=names.wait_key(rung_s, names.due_queue(0)),
                body=raw.body,
                headers=own_headers(raw),
                content_type=raw.content_type or "application/json",
            ),
            of=job.targets,
        )
        await job.ack()


def outage_text(endpoint: Endpoint) -> str:
    """Describe the open breaker that held a delivery back; empty where the breaker is closed."""
    state, last = endpoint.breaker, endpoint.last_failure
    if isinstance(state, Closed):
        return ""
    words = "the breaker is open"
    if isinstance(state, Open) and state.forced:
        words += " by hand"
    elif isinstance(state, Open) and state.since < inf:
        words += f" since {rfc3339(state.since)}"
    if last is not None:
        words += f"; last failure: {last.kind.value if last.status is None else last.status}"
    return f"; {words}"
