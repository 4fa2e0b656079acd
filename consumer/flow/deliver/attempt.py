"""Make one request for one target: wait for its slots, sign, send, learn, decide.

Data flow: DeliveryMessage, Target -> SignedRequest -> Outcome (edges.http) -> Verdict (core.retry.verdict).
A request takes a slot of the endpoint first, then a slot of the worker, so that no request holds a worker's
slot while it waits for an endpoint. Whatever the endpoint does becomes an outcome, never an exception.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

from consumer.core.endpoint.breaker import CLOCK_SLACK_S
from consumer.core.endpoint.health import gone_note
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.due import waited_s
from consumer.core.model import (
    Attempt,
    Defer,
    Delivered,
    Outcome,
    OutcomeKind,
    Park,
    Retry,
    SignedRequest,
    Verdict,
)
from consumer.core.retry.outcomes import is_success
from consumer.core.retry.policy import deadline
from consumer.core.retry.verdict import Situation, decide
from consumer.core.subscription.subscription import Subscription
from consumer.core.webhook.signing import sign
from consumer.flow.base.context import Context
from consumer.flow.base.slot_queue import SlotQueue
from consumer.flow.endpoints.endpoint import Endpoint
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.observe.observer import Attempted

DELIVERED = Delivered()


class Target(NamedTuple):
    """One admitted target of a message."""

    endpoint: Endpoint
    epoch: int  #: of the endpoint's breaker
    waits: bool  #: it has to wait for a slot of its endpoint


class Result(NamedTuple):
    """The result for one target."""

    subscription: Subscription
    #: None where no attempt is spent: cut off, called off, or a fault of our own side
    attempt: Attempt | None
    verdict: Verdict
    at: float  #: Unix seconds of the verdict; waits count from here
    stepped_s: float = 0.0  #: by how much the wall clock was set forward during the request


class Attempts:
    """Makes the requests of this worker."""

    def __init__(self, context: Context, endpoints: Endpoints, slots: SlotQueue) -> None:
        self._context = context
        self._endpoints = endpoints
        self._slots = slots
        self._requests: dict[asyncio.Task[Any], float] = {}  #: each with :attr:`DeliveryMessage.owed_since`
        self._cutting = False

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # kept: each call costs a system call

    def in_flight(self) -> int:
        """Return the number of requests in flight."""
        return len(self._requests)

    def oldest_at(self) -> float:
        """Return since when the oldest delivery in flight has been owed, in Unix seconds; inf: none is."""
        return min(self._requests.values(), default=inf)

    def cut(self) -> int:
        """Cut off every request in flight; each becomes a delivery message. Return how many."""
        self._cutting = True
        for task in self._requests:
            task.cancel()
        return len(self._requests)

    async def make(self, message: DeliveryMessage, target: Target, body: bytes) -> Result:
        """Make one request; raise nothing, whatever the endpoint does."""
        endpoint, slots = target.endpoint, self._slots
        if target.waits and not await endpoint.slots.acquire():
            now = self._context.clock.now()
            return Result(endpoint.subscription, None, Defer(now), now)
        try:
            waited = target.waits or slots.free <= 0
            await slots.acquire()
            try:
                called_off = self._called_off(message, target) if waited else None
                return called_off or await self._request(message, target, body)
            finally:
                slots.release()
        finally:
            endpoint.slots.release()

    def _called_off(self, message: DeliveryMessage, target: Target) -> Result | None:
        """Defer the request if the breaker opened, or a ``Retry-After`` came, during the wait for a slot."""
        event, endpoint, now = message.event, target.endpoint, self._context.clock.now()
        self._endpoints.steady(now)
        hold = endpoint.recall(target.epoch, now)
        if hold is None:
            return None
        subscription = endpoint.subscription
        self._context.observe.deferred(event, subscription, hold, message.owed_since)
        last = deadline(subscription.retry, event.arrived_at, event.expires_at, message.late_s)
        return Result(subscription, None, Defer(min(hold.defer.until, last)), now)

    async def _request(self, message: DeliveryMessage, target: Target, body: bytes) -> Result:
        context, event, endpoint = self._context, message.event, target.endpoint
        subscription = endpoint.subscription
        began = context.clock.now()
        if not message.attempts_made:
            context.observe.started(event, subscription)
        try:
            outcome = await self._send(message, endpoint, body, int(began))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._cutting or task is None:
                raise
            task.uncancel()
            return Result(subscription, None, Defer(began), began)
        now = context.clock.now()
        attempt = Attempt(
            number=message.attempts_made + 1,
            at=began,
            kind=outcome.kind,
            status=outcome.status,
            duration_s=outcome.duration_s,
        )
        self._endpoints.learn(endpoint, outcome, target.epoch, now)
        if outcome.kind is OutcomeKind.LOCAL:
            context.local_faults.met(outcome.detail, context.clock.monotonic())
        stepped_s = now - began - outcome.duration_s
        stepped_s = stepped_s if stepped_s > CLOCK_SLACK_S else 0.0
        verdict = self._decide(message, endpoint, outcome, (now, stepped_s))
        trace_id = (
            context.tracer.attempted(message, subscription, attempt, outcome, verdict)
            if context.tracer.is_on
            else None
        )
        before = message.attempts, message.owed_since
        done = Attempted(event, subscription, attempt, outcome, verdict, *before, trace_id)
        context.observe.attempted(done)
        context.notes.attempted(done)
        return Result(subscription, _spent(attempt, verdict), verdict, now, stepped_s)

    async def _send(
        self, message: DeliveryMessage, endpoint: Endpoint, body: bytes, timestamp: int
    ) -> Outcome:
        context, subscription, event = self._context, endpoint.subscription, message.event
        signature = sign(subscription.keys_at(timestamp), event.id, timestamp, body)
        request = SignedRequest(
            url=subscription.url,
            headers=(
                *endpoint.headers,
                ("webhook-id", event.id),
                ("webhook-timestamp", str(timestamp)),
                ("webhook-signature", signature),
                *(event.trace.items() if subscription.send_trace else ()),
            ),
            body=body,
            timeout_s=subscription.timeout_s,
            access=subscription.access,
        )
        task = asyncio.current_task(self._loop)
        if self._cutting or task is None:
            raise asyncio.CancelledError
        self._requests[task] = message.owed_since
        try:
            return await context.sender.send(request)
        finally:
            self._requests.pop(task, None)

    def _decide(
        self, message: DeliveryMessage, endpoint: Endpoint, outcome: Outcome, at: tuple[float, float]
    ) -> Verdict:
        """Return the verdict; *at* is Unix seconds, and the jump of the clock during the request."""
        if outcome.control is None and is_success(outcome):
            return DELIVERED  # as the core decides; only a failure needs a Situation
        subscription, event, (now, stepped_s) = endpoint.subscription, message.event, at
        disable_after_s = subscription.retry.disable_after_s
        verdict = decide(
            outcome,
            Situation(
                attempt=message.attempts_made + 1,
                policy=subscription.retry,
                arrived_at=event.arrived_at + stepped_s,
                now=now,
                sample=self._context.sample(),
                rules=subscription.on_status,
                expires_at=event.expires_at,
                previous_s=waited_s(message, now - outcome.duration_s),
                success_ratio=endpoint.success_ratio,
                late_s=message.late_s,
                postponed_s=self._endpoints.postponed_s(endpoint, now),
                gone=gone_note(disable_after_s) if endpoint.is_gone(now) else None,
            ),
        )
        match verdict:
            case Retry():
                self._endpoints.spend_retry(endpoint, now)
            case Park(disables=True):
                endpoint.forgive()
        return verdict


def _spent(attempt: Attempt, verdict: Verdict) -> Attempt | None:
    """Return the attempt as the delivery remembers it, with the chosen wait; None: it counts for nothing."""
    match verdict:
        case Defer():
            return None
        case Retry(wait_s=wait_s):
            return attempt._replace(wait_s=wait_s)
        case _:
            return attempt
