"""Tell other workers what changed here, take over what they know better, and count who lives.

Data flow: Endpoints -> :meth:`Agreement.changed` -> leveret.control -> :meth:`Agreement.hear` of the others
-> Endpoints; the number of live workers -> Endpoints, which divides rates by it.

Without the right to bind a queue to the control exchange a worker speaks and hears nothing: it is alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from consumer.core.endpoint import agreement
from consumer.core.endpoint.agreement import BEAT_S, Kind, News, Said, Workers
from consumer.core.endpoint.breaker import Closed, State
from consumer.core.endpoint.health import Health, set_back
from consumer.core.errors import BrokerUnavailable
from consumer.core.message.records import EndpointState
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.core.text.retry_after import RETRY_AFTER_MAX_S
from consumer.flow.base.context import Context
from consumer.flow.endpoints.endpoints import Endpoint, Endpoints, Known
from consumer.flow.store.subscriptions import Subscriptions
from consumer.ports import Publication

LATELY_S = 30.0  #: what changed within this time is told again with each beat: a lost message is healed
AT_ONCE = 500  #: endpoints in one message
HELD_SLACK_S = 1.0  #: a pause is told, and taken over, only where it is longer by more than this


class Agreement:
    """One worker's part in the talk of all."""

    def __init__(
        self, context: Context, subscriptions: Subscriptions, endpoints: Endpoints, worker: str
    ) -> None:
        """Bind to the flow and be told by *endpoints* of every change.

        Args:
            world: The ports.
            registry: Of the subscriptions.
            endpoints: Whose breakers are agreed on.
            worker: Name of this worker, another one after each start.
        """
        self._context = context
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._worker = worker
        self._workers = Workers()
        self._heard: dict[str, News] = {}  #: of endpoints that this worker has not met
        self._stored: dict[str, EndpointState] = {}  #: the same, from the store at the start
        self._healths: dict[str, Health] = {}  #: by endpoint, from the store too
        self._holds: dict[str, float] = {}  #: by endpoint, from the store: Unix seconds
        self._changed: dict[str, float] = {}  #: subscription id -> when it changed, monotonic seconds
        self._untold: set[str] = set()  #: subscription ids
        self._told: dict[str, tuple[int, float]] = {}  #: epoch and pause as told last, by subscription id
        self._wake = asyncio.Event()
        self._greets = False
        self._asked = False
        endpoints.on_change = self.changed
        endpoints.on_health = self.tell
        endpoints.begin = self._begin
        endpoints.on_set_back = self._set_back

    def _set_back(self, by_s: float) -> None:
        """The wall clock was set: what the store said moves along, and pauses are told anew."""
        self._told.clear()
        self._holds = {endpoint: until - by_s for endpoint, until in self._holds.items()}
        self._healths = {
            endpoint: Health(set_back(known.failing, by_s), max(known.taken_at - by_s, 0.0))
            for endpoint, known in self._healths.items()
        }

    # what happens here

    def remember(self, states: Iterable[EndpointState], healths: Mapping[str, Health]) -> None:
        """Take what the store says of endpoints: with it begins whoever starts late."""
        self._stored = {state.subscription_id: state for state in states if state.epoch > 0}
        self._healths = dict(healths)

    def recall(self, holds: Mapping[str, float]) -> None:
        """Take until when endpoints wanted nothing, in Unix seconds, as the store says."""
        self._holds = dict(holds)

    def changed(self, endpoint: Endpoint) -> None:
        """A breaker changed its state, or a pause began: told at once."""
        key, epoch, held_until = endpoint.subscription.id, endpoint.breaker.epoch, endpoint.pace.held_until
        told_epoch, told_until = self._told.get(key, (0, 0.0))
        if epoch != told_epoch or held_until > told_until + HELD_SLACK_S:
            self._told[key] = (epoch, held_until)
            self.tell(endpoint)

    def tell(self, endpoint: Endpoint) -> None:
        """Tell at once what is known of an endpoint, whatever was told before."""
        subscription_id = endpoint.subscription.id
        self._changed[subscription_id] = self._context.clock.monotonic()
        self._untold.add(subscription_id)
        self._wake.set()

    def listening(self) -> None:
        """What others say reaches this worker from now on: ask them for what was missed."""
        self._greets = True
        self._wake.set()

    def leads(self) -> bool:
        """Say whether this worker does what one of all workers is to do; without others it does."""
        return self._workers.leads(self._worker, self._context.clock.monotonic())

    # what others say

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take one message from the control exchange; what is not meant for the agreement is passed by."""
        said = agreement.decode(message)
        if said is None or said.worker == self._worker:
            return
        now = self._context.clock.monotonic()
        if said.kind is Kind.BYE:
            self._workers.leave(said.worker)
        else:
            self._workers.hear(said.worker, now)
        self._count(now)
        if said.store is not None:
            self._subscriptions.trust.heard(said.store)
        if said.kind is Kind.HELLO:
            self._asked = True
            self._wake.set()
        for news in said.news:
            self._take(news, first=said.worker < self._worker)

    def _take(self, news: News, *, first: bool) -> None:
        """Take over what is known better; *first* is true of a worker that probes before this one."""
        subscription = self._subscriptions.get(news.subscription)
        if subscription is None or endpoint_id(subscription.tenant, subscription.url) != news.endpoint:
            return
        endpoint = self._endpoints.met(subscription)
        if endpoint is None:
            older = self._heard.get(news.subscription)
            if older is None or agreement.outdoes(news, older):
                self._heard[news.subscription] = news
            if news.state == "closed" and not (news.held_s or news.failing_s):
                return
            endpoint = self._endpoints.of(subscription)
        now = self._context.clock.now()
        self._endpoints.steady(now)
        self._agree(endpoint, news, now, first=first)
        if news.held_s and now + news.held_s > endpoint.pace.held_until + HELD_SLACK_S:
            self._told[news.subscription] = (endpoint.breaker.epoch, now + news.held_s)
            self._endpoints.hold(endpoint, now + news.held_s)
        if subscription.enabled and endpoint.know(agreement.health_of(news, now)):
            self._context.record.health(subscription, endpoint.health)
            self.tell(endpoint)

    def _agree(self, endpoint: Endpoint, news: News, now: float, *, first: bool) -> None:
        """Take over what is known better of the breaker, and say who probes next."""
        sample = self._context.sample()
        if agreement.outranks(news, endpoint.breaker):
            if not agreement.contradicts(endpoint.breaker, now - endpoint.health.taken_at, news):
                self._endpoints.adopt(endpoint, agreement.adopted(news, now, sample), now)
            return
        if first:
            endpoint.breaker = agreement.behind(endpoint.breaker, news, now, sample)
        endpoint.breaker = agreement.yielding(endpoint.breaker, news, now, sample)

    def _begin(self, subscription: Subscription) -> Known:
        """Return what is known of an endpoint that this worker meets now."""
        now = self._context.clock.now()
        self._endpoints.steady(now)
        news = self._heard.pop(subscription.id, None)
        stored = self._stored.pop(subscription.id, None)
        here = endpoint_id(subscription.tenant, subscription.url)
        state: State | None = None
        if stored is not None and stored.endpoint == here:
            state = agreement.remembered(stored.state, stored.epoch, stored.since, subscription.breaker)
        if news is not None and (state is None or agreement.outranks(news, state)):
            state = agreement.adopted(news, now, self._context.sample())
        held_until = self._holds.pop(here, 0.0)
        if held_until > now + RETRY_AFTER_MAX_S:  # written by a clock that was set back since
            held_until = 0.0
        return Known(state, self._healths.pop(here, None), held_until)

    # what is said

    async def run(self) -> None:
        """Beat for ever, and tell in between what changed."""
        clock = self._context.clock
        next_at = clock.monotonic()
        while True:
            try:
                async with asyncio.timeout(max(next_at - clock.monotonic(), 0.0)):
                    await self._wake.wait()
            except TimeoutError:
                next_at = clock.monotonic() + BEAT_S
                self._count(clock.monotonic())
                await self._say(Kind.BEAT, self._lately())
            self._wake.clear()
            await self._tell()

    async def leave(self) -> None:
        """Say goodbye, so that the others need not wait for the silence."""
        await self._say(Kind.BYE, ())

    async def _tell(self) -> None:
        if self._greets:
            self._greets = False
            await self._say(Kind.HELLO, self._lately())
        if self._asked:
            self._asked = False
            await self._say(Kind.STATE, [e for e in self._endpoints.all() if _is_news(e)])
        if self._untold:
            untold, self._untold = self._untold, set()
            await self._say(Kind.STATE, [e for e in self._endpoints.all() if e.subscription.id in untold])

    async def _say(self, kind: Kind, endpoints: Sequence[Endpoint]) -> None:
        """Publish; what cannot be said now is told again with a later beat."""
        now = self._context.clock.now()
        self._endpoints.steady(now)
        for news in agreement.pieces((_news(e, now) for e in endpoints), AT_ONCE):
            publication = Publication(
                exchange=self._context.names.control,
                routing_key="",
                body=agreement.encode(Said(kind, self._worker, news, self._subscriptions.trust.generation())),
                mandatory=False,
            )
            try:
                await self._context.publisher.publish(publication)
            except BrokerUnavailable:
                return

    def _lately(self) -> Sequence[Endpoint]:
        now = self._context.clock.monotonic()
        self._changed = {key: at for key, at in self._changed.items() if now - at <= LATELY_S}
        return [
            e
            for e in self._endpoints.all()
            if e.subscription.id in self._changed or not isinstance(e.breaker, Closed)
        ]

    def _count(self, now: float) -> None:
        workers = self._workers.count(now)
        self._endpoints.share(workers)
        self._context.observe.workers_counted(workers)


def _is_news(endpoint: Endpoint) -> bool:
    """Say whether there is anything of an endpoint that who asks does not take for granted."""
    return bool(endpoint.breaker.epoch or endpoint.pace.held_until > 0 or endpoint.told is not None)


def _news(endpoint: Endpoint, now: float) -> News:
    subscription = endpoint.subscription
    names = (subscription.id, endpoint_id(subscription.tenant, subscription.url))
    news = agreement.told(names, endpoint.breaker, endpoint.pace.held_until, now)
    return agreement.with_health(news, endpoint.health, now)
