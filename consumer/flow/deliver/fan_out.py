"""Fan one message out to its targets, store the deliveries that are still owed, and ack: the settle rule.

Data flow: DeliveryMessage, subscriptions -> admission -> requests (attempt) and delivery messages -> ack.

Quick targets are sent straight from the message. Every other target becomes a delivery message at once,
beside the requests, so that no request waits for a confirm. The failures of the quick targets are published
together after the last request has ended, and the ack follows once all of it is confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from consumer.core.books import Step
from consumer.core.endpoint.admission import Hold, Wait
from consumer.core.endpoint.reservations import LOOK_S
from consumer.core.errors import BrokerUnavailable
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.due import rest_s
from consumer.core.model import Defer, Delivered, Drop, Park, ParkReason, Retry
from consumer.core.retry.policy import deadline
from consumer.core.subscription.subscription import Subscription
from consumer.core.webhook.body import build_body
from consumer.flow.base.context import Context
from consumer.flow.base.outbox import Outbox, together
from consumer.flow.base.slot_queue import SlotQueue
from consumer.flow.deliver.attempt import Attempts, Result, Target
from consumer.flow.deliver.unstored import Unstored
from consumer.flow.endpoints.endpoint import Endpoint
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.store.subscriptions import Subscriptions
from consumer.flow.take.job import Job
from consumer.ports import Source

AT_ONCE = ("slow", "locked")  #: reasons of deferrals that go to a due queue at once, without a rung
FRESH = frozenset({Source.LANE, Source.INBOX, Source.SPILL})  #: their deliveries do not wait yet
BACKLOG_TEXT = "its tenant has more deliveries waiting than there is room left: [limits] waiting_bytes"
HELD_S = 1.0  #: a delivery message that may be sent within this time is held in the worker


class FanOut:
    """Takes a message to a verdict for each of its subscriptions."""

    def __init__(
        self, context: Context, subscriptions: Subscriptions, endpoints: Endpoints, slots: SlotQueue
    ) -> None:
        self._context = context
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._outbox = Outbox(context)
        self._unstored = Unstored()
        self.attempts = Attempts(context, endpoints, slots)

    async def run(self, job: Job, message: DeliveryMessage, to: Sequence[Subscription]) -> Sequence[str]:
        """Send the quick targets and store the others at once, then store the failures; ack last.

        Results that an earlier take of the message could not store are stored without a request.

        Returns:
            The subscriptions whose attempt is settled: a copy of the message owes them nothing.

        Raises:
            BrokerUnavailable: the broker gives the message out again; its results are kept until then.
        """
        kept = self._unstored.take(job.source, message, redelivered=job.incoming.message.redelivered)
        if kept is not None:
            message = replace(message, event=replace(message.event, arrived_at=kept.arrived_at))
            to = [subscription for subscription in to if subscription.id not in kept.results]
        results = [] if kept is None else list(kept.results.values())
        try:
            if not to:
                job.targets.open(len(results))
                job.started(takes_slot=False)
            elif not await self._make(job, message, to, results):
                return ()
            await self._settle(job, message, results)
        except BrokerUnavailable:
            self._unstored.keep(job.source, message, results)
            raise
        lost = job.lost()
        if lost:  # its ack gets lost
            self._unstored.keep(job.source, message, results)
        if not lost or message.targets:  # the copy of a delivery message is known as settled, an event is not
            _note_ends(job, results)
        await job.ack()
        return [result.subscription.id for result in results if not isinstance(result.verdict, Defer)]

    async def _make(
        self, job: Job, message: DeliveryMessage, to: Sequence[Subscription], results: list[Result]
    ) -> bool:
        """Make the requests, and add their results; False where the message is held in the worker instead."""
        now = self._context.clock.now()
        fresh = len(message.targets) != 1 and job.source is not Source.SUSPECT
        message = replace(message, reserved=True) if job.reserved else message
        job.recost(len(to))
        sends, holds = self._admit(message, to, fresh=fresh, now=now)
        if len(holds) == len(to) == 1 and self._hold_here(job, holds[0][1], now, fresh=fresh):
            return False
        job.targets.open(len(to) + len(results))
        try:
            body = build_body(message.event) if sends else b""
            stored = [self._put_off(job, message, s, hold) for s, hold in holds]
            if not sends:
                await together(stored)
        except BaseException:
            for target in sends:
                if not target.waits:
                    target.endpoint.slots.release()
            raise
        job.started(takes_slot=not all(target.waits for target in sends))
        if stored and sends:
            await self._send_beside(together(stored), message, sends, body, results)
        else:
            await self._send(message, sends, body, results)
        return True

    def is_freed(self, message: DeliveryMessage, now: float) -> bool:
        """Return whether a delivery message that comes back early is to be admitted anew.

        Its reservation is void: the endpoint recovered, was reset or resumed, or has other settings now. The
        reservation was made before the whole wait, and before the part of it that was served: the earlier of
        both times counts, since the clock may have been set.
        """
        endpoint = self._held_by(message)
        if endpoint is None:
            return False
        self._endpoints.steady(now)
        return endpoint.reservations.is_void(min(message.not_before - message.wait_s, now - message.served_s))

    def look_s(self, message: DeliveryMessage, now: float) -> float:
        """Return after how many seconds, at most, a delivery message is checked again; infinity: never."""
        endpoint = self._held_by(message)
        if endpoint is None or rest_s(message, now) <= LOOK_S:
            return inf
        return endpoint.reservations.look_s(now)

    def _held_by(self, message: DeliveryMessage) -> Endpoint | None:
        subscription = (
            self._subscriptions.get(message.targets[0]) if message.held and message.targets else None
        )
        return None if subscription is None else self._endpoints.of(subscription)

    async def _send(
        self, message: DeliveryMessage, sends: Sequence[Target], body: bytes, results: list[Result]
    ) -> None:
        """Make every request at the same time; add the results once the last one has ended."""
        if len(sends) == 1:
            results.append(await self.attempts.make(message, sends[0], body))
        else:
            results += await asyncio.gather(*(self.attempts.make(message, t, body) for t in sends))

    async def _send_beside(
        self,
        storing: Awaitable[None],
        message: DeliveryMessage,
        sends: Sequence[Target],
        body: bytes,
        results: list[Result],
    ) -> None:
        """Make every request and store beside them; add the results once all have ended.

        Raises:
            Exception: the first error of a step.
        """
        sending = (self.attempts.make(message, target, body) for target in sends)
        ended = await asyncio.gather(*sending, storing, return_exceptions=True)
        results += [one for one in ended if isinstance(one, Result)]
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    def _admit(
        self, message: DeliveryMessage, to: Sequence[Subscription], *, fresh: bool, now: float
    ) -> tuple[list[Target], list[tuple[Subscription, Hold]]]:
        sends: list[Target] = []
        holds: list[tuple[Subscription, Hold]] = []
        reserved, siblings = message.reserved, len(to) > 1
        for subscription in to:
            endpoint = self._endpoints.of(subscription)
            admission = self._endpoints.admit(
                endpoint, now, fresh=fresh, reserved=reserved, siblings=siblings
            )
            if isinstance(admission, Hold):
                holds.append((subscription, admission))
                self._context.observe.deferred(message.event, subscription, admission, message.owed_since)
            else:
                sends.append(Target(endpoint, admission.epoch, isinstance(admission, Wait)))
        return sends, holds

    def _hold_here(self, job: Job, hold: Hold, now: float, *, fresh: bool) -> bool:
        """Hold a delivery message that may be sent within a second, instead of publishing it once more."""
        rest_s = hold.defer.until - now
        if fresh or rest_s > HELD_S:
            return False
        return job.hold(max(rest_s, 0.001), reserved=hold.reserved)

    def _put_off(
        self, job: Job, message: DeliveryMessage, subscription: Subscription, hold: Hold
    ) -> Coroutine[Any, Any, None]:
        """Store a deferred target: it spends no attempt, and its deadline stays."""
        event, now = message.event, self._context.clock.now()
        last = deadline(subscription.retry, event.arrived_at, event.expires_at, message.late_s)
        until = min(hold.defer.until, last)
        deferred = replace(
            message,
            targets=(subscription.id,),
            not_before=until,
            wait_s=max(until - now, 0.0),
            served_s=0.0,
            exact=False,
            reserved=hold.reserved,
            held=True,
            by_hand_until=until if hold.by_hand else message.by_hand_until,
        )
        if hold.reason not in AT_ONCE and self._has_too_much(job, message):
            return self._park_backlog(job, deferred)
        self._context.notes.deferred(message, subscription, hold.reason, deferred.wait_s)
        stored = self._outbox.stored(
            deferred, direct=hold.reason in AT_ONCE, look_s=self.look_s(deferred, now)
        )
        return self._outbox.confirmed(stored, of=job.targets)

    def _has_too_much(self, job: Job, message: DeliveryMessage) -> bool:
        """Return whether a new delivery may not wait, as its tenant has too much waiting already."""
        if job.source not in FRESH:
            return False
        backlog, now = self._context.backlog, self._context.clock.monotonic()
        return backlog.refuses(message.event.tenant, self._subscriptions.tenants(), now)

    def _park_backlog(self, job: Job, message: DeliveryMessage) -> Coroutine[Any, Any, None]:
        return self._outbox.park_delivery(message, ParkReason.BACKLOG, BACKLOG_TEXT, of=job.targets)

    async def _settle(self, job: Job, message: DeliveryMessage, results: Sequence[Result]) -> None:
        """Store every delivery that is still owed; return once the broker has confirmed all of them.

        Raises:
            BrokerUnavailable: the broker gives the message out again, and the next worker stores them.
        """
        if all(isinstance(r.verdict, Delivered) and not r.verdict.disables for r in results):
            return
        if job.lost():
            raise BrokerUnavailable("its channel closed during the requests")
        owed = (self._owed(job, message, result) for result in results)
        await together([step for step in owed if step is not None])

    def _owed(self, job: Job, message: DeliveryMessage, result: Result) -> Coroutine[Any, Any, None] | None:
        target = (result.subscription.id,)
        after = replace(message, targets=target, exact=False, reserved=False, held=False, served_s=0.0)
        if result.attempt is not None:
            attempts, made = (*message.attempts, result.attempt), message.attempts_made + 1
            after = replace(after, attempts=attempts, attempts_made=made, late_s=result.stepped_s)
        match result.verdict:
            case Delivered(disables=disables):
                if disables:
                    self._subscriptions.disable(result.subscription, "webhook-delivery: disable")
                return None
            case Retry(wait_s=wait_s, exact=exact):
                if self._has_too_much(job, message):
                    return self._park_backlog(job, after)
                after = replace(after, not_before=result.at + wait_s, wait_s=wait_s, exact=exact)
                return self._outbox.confirmed(self._outbox.stored(after, direct=False), of=job.targets)
            case Defer(until=until):
                wait_s = max(until - result.at, 0.0)
                after = replace(after, not_before=until, wait_s=wait_s, held=True)
                stored = self._outbox.stored(after, direct=True, look_s=self.look_s(after, result.at))
                return self._outbox.confirmed(stored, of=job.targets)
            case Park() as park:
                return self._park(job, after, result.subscription, park)
            case Drop(reason=reason):
                self._context.observe.cancelled(message.event, result.subscription.id, reason)
                self._context.notes.cancelled(message.event, result.subscription.id, reason)
                return None

    async def _park(self, job: Job, message: DeliveryMessage, subscription: Subscription, park: Park) -> None:
        """Park a delivery; a delivery that would disable a URL replaced meanwhile goes to the new URL."""
        if park.disables:
            if await self._subscriptions.has_moved(subscription):
                now = self._context.clock.now()
                again = replace(message, not_before=now, wait_s=0.0)
                await self._outbox.confirmed(self._outbox.stored(again, direct=True), of=job.targets)
                return
            self._subscriptions.disable(subscription, park.detail)
        await self._outbox.park_delivery(message, park.reason, park.detail, of=job.targets)


def _note_ends(job: Job, results: Sequence[Result]) -> None:
    """Count the targets that ended without a publish, in the books."""
    for result in results:
        if isinstance(result.verdict, Delivered):
            job.targets.close(Step.DELIVERED)
        elif isinstance(result.verdict, Drop):
            job.targets.close(Step.CANCELLED)
