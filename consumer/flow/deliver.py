"""Take one message to its verdicts: decode, match, admit, send, decide, publish what is owed, ack.

The settle rule: quick targets are sent straight from the event; every other target becomes a delivery
message at once, confirmed, before any request. The failures of the quick ones are published together
after the last of them has ended, and the ack follows that confirm at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from consumer.core.decode import NeedsInbox, decode_event
from consumer.core.delivery import (
    DeliveryMessage,
    UnknownVersion,
    is_wrapped,
    read_delivery,
    short_text,
    unwrap_raw,
    wrap_raw,
)
from consumer.core.errors import BadEvent
from consumer.core.ids import uuid7
from consumer.core.model import (
    Attempt,
    Defer,
    Delivered,
    Drop,
    Event,
    Outcome,
    Park,
    ParkReason,
    RawMessage,
    Retry,
    SignedRequest,
    Verdict,
)
from consumer.core.retry import Situation, deadline, decide
from consumer.core.signing import sign
from consumer.core.subscription import Subscription
from consumer.core.webhook import build_body
from consumer.flow.endpoints import Endpoint, Endpoints, Hold, Wait
from consumer.flow.intake import OURS, Intake, Job, Source
from consumer.flow.observe import Attempted
from consumer.flow.outbox import Outbox
from consumer.flow.registry import Registry
from consumer.flow.world import World
from consumer.ports import Publication

DIRECT_S = 0.05  #: what may be sent this soon takes no rung
HELD_S = 1.0  #: a delivery message that may be sent this soon is held in the worker
UNKNOWN_VERSION_WAIT_S = 30.0  #: how long a newer worker's message waits for a newer worker


@dataclass(frozen=True, slots=True)
class Target:
    """One admitted target of a message."""

    endpoint: Endpoint
    epoch: int  #: of the endpoint's breaker
    waits: bool  #: its endpoint slot is still to be waited for


@dataclass(frozen=True, slots=True)
class Result:
    """What one target came to."""

    subscription: Subscription
    attempt: Attempt | None  #: None when it was cut off at the end of the grace, or called off before
    verdict: Verdict
    at: float  #: Unix seconds of the verdict; waits count from here


class Deliverer:
    """Works off one job at a time; many run side by side."""

    def __init__(self, world: World, registry: Registry, endpoints: Endpoints) -> None:
        self._world = world
        self._registry = registry
        self._endpoints = endpoints
        self._outbox = Outbox(world)
        self._requests: set[asyncio.Task[Any]] = set()
        self._cutting = False
        self.intake = Intake(world, self.handle)

    async def handle(self, job: Job) -> None:
        """Take *job* to its end: every path acks or gives back exactly once."""
        world, raw = self._world, job.incoming.message
        unread = raw.delivery_count >= world.bounds.suspect_after and job.source is not Source.SUSPECT
        unread = unread and raw.fault is None
        if world.reach is not None and not unread:
            await world.reach("after-take")
        try:
            await (self._move_to_suspect(job) if unread else self._dispatch(job, raw))
        except Exception as error:  # a bug: the message comes again, and to suspect when it goes on so
            world.observe.task_failed("job", error)
            await job.incoming.ticket.requeue()

    async def _dispatch(self, job: Job, raw: RawMessage) -> None:
        """Take the way that its source asks for; park what cannot be read, as its producer sent it."""
        suspect = job.source is Source.SUSPECT
        wrapped = suspect and is_wrapped(raw)
        try:
            raw = unwrap_raw(raw) if wrapped else raw
            _demand_readable(raw)
            if job.source in OURS or (suspect and not wrapped):
                await self._handle_delivery(job)
            else:
                await self._handle_event(job, raw)
        except BadEvent as bad:
            await self._outbox.park_raw(raw, ParkReason(bad.reason), bad.detail)
            await job.incoming.ticket.ack()

    def cut(self) -> int:
        """Cut off every request in flight: they become delivery messages. Returns how many."""
        self._cutting = True
        for task in self._requests:
            task.cancel()
        return len(self._requests)

    # events

    async def _handle_event(self, job: Job, raw: RawMessage) -> None:
        world, now = self._world, self._world.clock.now()
        decoded = decode_event(raw, world.decode, now)
        if isinstance(decoded, NeedsInbox):
            await self._readdress(job, decoded, now)
            return
        event = decoded
        targets = self._registry.match(event.tenant, event.type)
        if not targets:
            world.observe.event_unrouted(event)
            await job.incoming.ticket.ack()
            return
        world.observe.event_matched(event)
        if event.expires_at is not None and now >= event.expires_at:
            await self._expire(job, event, targets, now)
            return
        if len(targets) > world.bounds.max_targets_per_message:
            await self._split(job, event, targets)
            return
        await self._fan_out(job, DeliveryMessage(event=event, targets=()), targets)

    async def _expire(self, job: Job, event: Event, targets: Sequence[Subscription], now: float) -> None:
        """Its producer's expiration passed before it came to us: nothing is sent."""
        single = [DeliveryMessage(event=event, targets=(s.id,)) for s in targets]
        parks = [self._outbox.park_delivery(m, ParkReason.EXPIRED, _age_text(m, now)) for m in single]
        await asyncio.gather(*parks)
        await job.incoming.ticket.ack()

    async def _readdress(self, job: Job, needs: NeedsInbox, now: float) -> None:
        """The inbox hop: publish once more with an id and a tenant, confirm, then ack."""
        event_id = needs.message_id or uuid7(int(now * 1000), self._world.random_bytes(10))
        await self._outbox.confirmed(
            Publication(
                exchange=self._world.names.events,
                routing_key=needs.routing_key,
                body=needs.body,
                headers=needs.headers,
                content_type=short_text(needs.content_type or "application/json"),
                message_id=event_id,
                type=needs.type,
                timestamp_s=needs.timestamp_s,
                app_id=needs.app_id,
                correlation_id=needs.correlation_id,
            )
        )
        await job.incoming.ticket.ack()
        self._world.observe.event_readdressed(event_id, job.incoming.message.queue)

    async def _split(self, job: Job, event: Event, targets: Sequence[Subscription]) -> None:
        """Turn an event with very many targets into delivery messages of at most 100 each."""
        size = self._world.bounds.max_targets_per_message
        ids = [s.id for s in targets]
        await self._outbox.all_confirmed(
            [
                self._outbox.due_now(DeliveryMessage(event=event, targets=tuple(ids[i : i + size])))
                for i in range(0, len(ids), size)
            ]
        )
        await job.incoming.ticket.ack()

    async def _move_to_suspect(self, job: Job) -> None:
        raw = job.incoming.message
        ours = job.source in OURS
        await self._outbox.confirmed(
            Publication(
                exchange=self._world.names.dlx,
                routing_key="suspect",
                body=raw.body,
                headers=_own_headers(raw) if ours else wrap_raw(raw),
                content_type=short_text(raw.content_type or "application/octet-stream"),
            )
        )
        await job.incoming.ticket.ack()
        self._world.observe.message_suspected(raw.queue, raw.delivery_count)

    # delivery messages

    async def _handle_delivery(self, job: Job) -> None:
        raw, now = job.incoming.message, self._world.clock.now()
        try:
            message = read_delivery(raw)
        except UnknownVersion:
            await self._leave_to_newer(job, raw)
            return
        if message.not_before > now:
            await self._wait_on(job, message, now)
            return
        subscriptions, ends = [], []
        for target in message.targets:
            subscription = self._registry.get(target)
            end = self._ended_without_request(message, target, subscription, now)
            if end is not None:
                ends.append(end)
            elif subscription is not None:
                subscriptions.append(subscription)
        await asyncio.gather(*ends)
        if subscriptions:
            self._world.observe.tenant_job(message.event.tenant)
            await self._fan_out(job, message, subscriptions)
        else:
            await job.incoming.ticket.ack()

    def _ended_without_request(
        self, message: DeliveryMessage, target: str, subscription: Subscription | None, now: float
    ) -> Coroutine[Any, Any, None] | None:
        """Return what ends a target that must not be sent any more, or None when it may be sent."""
        event = message.event
        if subscription is None:
            self._world.observe.cancelled(event, target, "subscription deleted")
            return _nothing()
        single = replace(message, targets=(target,))
        if not subscription.enabled:
            return self._outbox.park_delivery(single, ParkReason.DISABLED, "the subscription is disabled")
        if now >= deadline(subscription.retry, event.arrived_at, event.expires_at):
            return self._outbox.park_delivery(single, ParkReason.EXPIRED, _age_text(message, now))
        return None

    async def _wait_on(self, job: Job, message: DeliveryMessage, now: float) -> None:
        """It came back early: take the next rung, or hold the rest of the wait here."""
        onward = self._outbox.rewaiting(message, now)
        if onward is None:
            if self.intake.hold(job, message.not_before - now):
                return
            onward = self._outbox.waiting(message, now)
        await self._outbox.confirmed(onward)
        await job.incoming.ticket.ack()

    async def _leave_to_newer(self, job: Job, raw: RawMessage) -> None:
        names, world = self._world.names, self._world
        rung_s = max(
            r for r in world.ladder.rungs_s if r <= UNKNOWN_VERSION_WAIT_S or r == world.ladder.rungs_s[0]
        )
        await self._outbox.confirmed(
            Publication(
                exchange=names.wait,
                routing_key=names.wait_key(rung_s, names.due_queue(0)),
                body=raw.body,
                headers=_own_headers(raw),
                content_type=raw.content_type or "application/json",
            )
        )
        await job.incoming.ticket.ack()

    # both

    async def _fan_out(self, job: Job, message: DeliveryMessage, to: Sequence[Subscription]) -> None:
        """Send the quick ones, store the others, then store what failed; ack last."""
        world, now = self._world, self._world.clock.now()
        fresh = len(message.targets) != 1 and job.source is not Source.SUSPECT
        message = replace(message, reserved=True) if job.reserved else message
        sends, holds = self._admit(message, to, fresh=fresh, now=now)
        if len(holds) == len(to) == 1 and self._hold_here(job, holds[0][1], now, fresh=fresh):
            return
        try:
            stored = [self._put_off(message, s, hold, now) for s, hold in holds]
            await self._outbox.all_confirmed(stored)
            body = build_body(message.event) if sends else b""
        except BaseException:
            for target in sends:
                if not target.waits:
                    target.endpoint.release()
            raise
        self.intake.under_way(job)
        if all(target.waits for target in sends):  # they take no global slot yet: others may
            self.intake.pump()
        if len(sends) == 1:
            results = [await self._attempt(message, sends[0], body)]
        else:
            results = await asyncio.gather(*(self._attempt(message, t, body) for t in sends))
        await self._settle(message, results)
        if world.reach is not None:
            await world.reach(
                "after-confirm-before-ack" if stored or _failed(results) else "after-2xx-before-ack"
            )
        await job.incoming.ticket.ack()

    def _admit(
        self, message: DeliveryMessage, to: Sequence[Subscription], *, fresh: bool, now: float
    ) -> tuple[list[Target], list[tuple[Subscription, Hold]]]:
        sends: list[Target] = []
        holds: list[tuple[Subscription, Hold]] = []
        for subscription in to:
            endpoint = self._endpoints.of(subscription)
            admission = self._endpoints.admit(endpoint, now, fresh=fresh, reserved=message.reserved)
            if isinstance(admission, Hold):
                holds.append((subscription, admission))
                self._world.observe.deferred(message.event, subscription, admission.defer, admission.reason)
            else:
                sends.append(Target(endpoint, admission.epoch, isinstance(admission, Wait)))
        return sends, holds

    def _hold_here(self, job: Job, hold: Hold, now: float, *, fresh: bool) -> bool:
        """A delivery message that may be sent within a second is held, not published once more."""
        rest_s = hold.defer.until - now
        if fresh or rest_s > HELD_S:
            return False
        job.reserved = hold.reason == "paced"
        return self.intake.hold(job, max(rest_s, 0.001))

    def _put_off(
        self, message: DeliveryMessage, subscription: Subscription, hold: Hold, now: float
    ) -> Publication:
        """Address a deferred target: no attempt is spent, and age still ends it."""
        event = message.event
        until = min(hold.defer.until, deadline(subscription.retry, event.arrived_at, event.expires_at))
        deferred = replace(
            message,
            targets=(subscription.id,),
            not_before=until,
            wait_s=max(until - now, 0.0),
            exact=False,
            reserved=hold.reason == "paced",
        )
        if until - now <= DIRECT_S and hold.reason == "slow":
            return self._outbox.due_now(deferred)
        return self._outbox.waiting(deferred, now)

    async def _attempt(self, message: DeliveryMessage, target: Target, body: bytes) -> Result:
        """Make one request, endpoint slot first; never raises for what the endpoint does."""
        endpoint, slots = target.endpoint, self.intake.slots
        if target.waits and not await endpoint.slot():
            now = self._world.clock.now()
            return Result(endpoint.subscription, None, Defer(now), now)
        try:
            await slots.acquire()
            try:
                return self._called_off(message, target) or await self._request(message, target, body)
            finally:
                slots.release()
        finally:
            endpoint.release()

    def _called_off(self, message: DeliveryMessage, target: Target) -> Result | None:
        """Look again after the wait for a slot: the breaker may have opened, or a ``Retry-After`` come."""
        event, endpoint, now = message.event, target.endpoint, self._world.clock.now()
        hold = endpoint.recall(target.epoch, now)
        if hold is None:
            return None
        subscription = endpoint.subscription
        self._world.observe.deferred(event, subscription, hold.defer, hold.reason)
        last = deadline(subscription.retry, event.arrived_at, event.expires_at)
        return Result(subscription, None, Defer(min(hold.defer.until, last)), now)

    async def _request(self, message: DeliveryMessage, target: Target, body: bytes) -> Result:
        world, event, endpoint = self._world, message.event, target.endpoint
        subscription = endpoint.subscription
        began = world.clock.now()
        try:
            outcome = await self._send(event, endpoint, body, int(began))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._cutting or task is None:
                raise
            task.uncancel()
            return Result(subscription, None, Defer(began), began)
        now = world.clock.now()
        attempt = Attempt(
            number=message.attempts_made + 1,
            at=began,
            kind=outcome.kind,
            status=outcome.status,
            duration_s=outcome.duration_s,
        )
        self._endpoints.learn(endpoint, outcome, target.epoch, now)
        verdict = self._decide(message, subscription, outcome, now)
        world.observe.attempted(Attempted(event, subscription, attempt, outcome, verdict))
        return Result(subscription, attempt, verdict, now)

    async def _send(self, event: Event, endpoint: Endpoint, body: bytes, timestamp: int) -> Outcome:
        world, subscription = self._world, endpoint.subscription
        signature = sign(subscription.keys, event.id, timestamp, body)
        request = SignedRequest(
            url=subscription.url,
            headers=(
                *endpoint.headers,
                ("webhook-id", event.id),
                ("webhook-timestamp", str(timestamp)),
                ("webhook-signature", signature),
                *event.trace.items(),
            ),
            body=body,
            timeout_s=subscription.timeout_s,
        )
        task = asyncio.current_task()
        if self._cutting or task is None:
            raise asyncio.CancelledError
        self._requests.add(task)
        world.observe.series.in_flight.inc()
        try:
            if world.reach is None:
                return await world.sender.send(request)
            sending = asyncio.ensure_future(world.sender.send(request))
            await world.reach("during-request")
            return await sending
        finally:
            world.observe.series.in_flight.dec()
            self._requests.discard(task)

    def _decide(
        self, message: DeliveryMessage, subscription: Subscription, outcome: Outcome, now: float
    ) -> Delivered | Retry | Park | Drop:
        verdict = decide(
            outcome,
            Situation(
                attempt=message.attempts_made + 1,
                policy=subscription.retry,
                arrived_at=message.event.arrived_at,
                now=now,
                sample=self._world.sample(),
                rules=subscription.on_status,
                expires_at=message.event.expires_at,
            ),
        )
        if isinstance(verdict, Defer):
            raise TypeError("an outcome never defers")
        return verdict

    async def _settle(self, message: DeliveryMessage, results: Sequence[Result]) -> None:
        """Store everything that is still owed; returns once the broker has confirmed all of it."""
        if all(isinstance(r.verdict, Delivered) for r in results):
            return
        now = self._world.clock.now()
        owed = (self._owed(message, result, now) for result in results)
        await asyncio.gather(*(step for step in owed if step is not None))

    def _owed(self, message: DeliveryMessage, result: Result, now: float) -> Coroutine[Any, Any, None] | None:
        after = replace(message, targets=(result.subscription.id,), exact=False, reserved=False)
        if result.attempt is not None:
            attempts = (*message.attempts, result.attempt)
            after = replace(after, attempts=attempts, attempts_made=message.attempts_made + 1)
        match result.verdict:
            case Delivered():
                return None
            case Retry(wait_s=wait_s, exact=exact):
                after = replace(after, not_before=result.at + wait_s, wait_s=wait_s, exact=exact)
                return self._outbox.confirmed(self._outbox.waiting(after, now))
            case Defer(until=until):
                after = replace(after, not_before=until, wait_s=max(until - now, 0.0))
                at_once = until - now <= DIRECT_S
                return self._outbox.confirmed(
                    self._outbox.due_now(after) if at_once else self._outbox.waiting(after, now)
                )
            case Park() as park:
                return self._park(after, result.subscription, park)
            case Drop(reason=reason):
                self._world.observe.cancelled(message.event, result.subscription.id, reason)
                return None

    async def _park(self, message: DeliveryMessage, subscription: Subscription, park: Park) -> None:
        if park.disables:
            await self._registry.disable(subscription, park.detail)
        await self._outbox.park_delivery(message, park.reason, park.detail)


def _demand_readable(raw: RawMessage) -> None:
    if raw.fault is not None:
        raise BadEvent(ParkReason.MALFORMED, f"its headers cannot be read: {raw.fault}")


def _failed(results: Sequence[Result]) -> bool:
    return any(not isinstance(r.verdict, Delivered) for r in results)


def _own_headers(raw: RawMessage) -> dict[str, object]:
    return {k: v for k, v in raw.headers.items() if k.startswith("leveret-")}


def _age_text(message: DeliveryMessage, now: float) -> str:
    age_s = now - message.event.arrived_at
    return f"not delivered within its time: {age_s:.0f} s old after {message.attempts_made} attempts"


async def _nothing() -> None:
    return None
