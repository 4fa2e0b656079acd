"""Publish the changes of this worker's endpoints, take over better news of others, and count the workers.

Data flow: Endpoints -> Announcements -> :meth:`Agreement.run` -> leveret.control -> :meth:`Agreement.receive`
of the other workers -> their Endpoints; the number of live workers -> Endpoints, which divides rates by it.

A worker without the right to bind a queue to the control exchange is alone: it publishes nothing, and
receives nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from consumer.core.endpoint import agreement
from consumer.core.endpoint.agreement import (
    BEAT_ENDPOINTS,
    BEAT_S,
    News,
    NewsKind,
    NewsMessage,
    Rotation,
    Workers,
)
from consumer.core.endpoint.breaker import Closed
from consumer.core.errors import BrokerUnavailable
from consumer.core.subscription.subscription import endpoint_id
from consumer.flow.base.context import Context
from consumer.flow.endpoints.announcements import HELD_SLACK_S
from consumer.flow.endpoints.endpoint import Endpoint
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.store.subscriptions import Subscriptions
from consumer.ports import Publication

AT_ONCE = 500  #: endpoints in one message


class Agreement:
    """The part of one worker in the agreement of all."""

    def __init__(
        self, context: Context, subscriptions: Subscriptions, endpoints: Endpoints, worker: str
    ) -> None:
        """Bind to the flow.

        Args:
            context: The ports.
            subscriptions: All that this worker knows.
            endpoints: The endpoints whose breakers are agreed on.
            worker: Name of this worker, another one after each start.
        """
        self._context = context
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._announcements = endpoints.announcements
        self._worker = worker
        self._workers = Workers()
        self._greets = False  #: the next message asks the others for their news
        self._asked = False  #: another worker asked for all news
        self._recent = Rotation()  #: of the endpoints that changed lately
        self._unwell = Rotation()  #: of those whose breaker is not closed

    def listening(self) -> None:
        """Ask the others for their news: from now on their messages reach this worker."""
        self._greets = True
        self._announcements.wake.set()

    def leads(self) -> bool:
        """Return whether this worker does the tasks that one of all workers has to do; alone it does."""
        return self._workers.leads(self._worker, self._context.clock.monotonic())

    # messages of others

    def receive(self, body: Mapping[str, Any]) -> None:
        """Take one message from the control exchange; a message for other parts of the worker is ignored."""
        message = agreement.decode(body)
        if message is None or message.worker == self._worker:
            return
        now = self._context.clock.monotonic()
        if message.kind is NewsKind.BYE:
            self._workers.leave(message.worker)
        else:
            self._workers.hear(message.worker, now)
        self._count(now)
        if message.store is not None:
            self._subscriptions.trust.heard(message.store)
        if message.kind is NewsKind.HELLO:
            self._asked = True
            self._announcements.wake.set()
        for news in message.news:
            self._take(news, first=message.worker < self._worker)

    def _take(self, news: News, *, first: bool) -> None:
        """Take over better news; *first* is true for a worker that probes before this one."""
        subscription = self._subscriptions.get(news.subscription)
        if subscription is None:
            return
        endpoint = self._endpoints.met(subscription)
        here = endpoint_id(subscription.tenant, subscription.url) if endpoint is None else endpoint.id
        if here != news.endpoint:
            return
        if endpoint is None:
            self._endpoints.prior.add(news)
            if news.state == "closed" and not (news.held_s or news.failing_s):
                return
            endpoint = self._endpoints.of(subscription)
        now = self._context.clock.now()
        self._endpoints.steady(now)
        self._agree(endpoint, news, now, first=first)
        if news.held_s and now + news.held_s > endpoint.pace.held_until + HELD_SLACK_S:
            self._announcements.mark_known(endpoint, now + news.held_s)
            endpoint.admission.pause(now + news.held_s)
        if subscription.enabled and endpoint.health.merge(agreement.health_of(news, now)):
            self._context.record.health(subscription, endpoint.health.account)
            self._announcements.announce(endpoint)

    def _agree(self, endpoint: Endpoint, news: News, now: float, *, first: bool) -> None:
        """Take over a better state of the breaker, or let the other worker probe first."""
        sample = self._context.sample()
        if not agreement.outranks(news, endpoint.breaker):
            endpoint.yield_to(news, now, sample, first=first)
        elif not agreement.contradicts(endpoint.breaker, now - endpoint.health.account.taken_at, news):
            self._endpoints.adopt(endpoint, agreement.adopted(news, now, sample), now)

    # messages to others

    async def run(self) -> None:
        """Beat for ever, and publish changes in between."""
        clock, wake = self._context.clock, self._announcements.wake
        next_at = clock.monotonic()
        while True:
            try:
                async with asyncio.timeout(max(next_at - clock.monotonic(), 0.0)):
                    await wake.wait()
            except TimeoutError:
                next_at = clock.monotonic() + BEAT_S
                await self.beat()
            wake.clear()
            await self._publish_due()

    async def beat(self) -> None:
        """Count the workers, and repeat news; the cost has a bound."""
        self._count(self._context.clock.monotonic())
        await self._publish(NewsKind.BEAT, self._repeated())

    async def leave(self) -> None:
        """Announce the end of this worker, so that the others need not wait for its beats."""
        await self._publish(NewsKind.BYE, ())

    async def _publish_due(self) -> None:
        if self._greets:
            self._greets = False
            await self._publish(NewsKind.HELLO, self._repeated())
        if self._asked:
            self._asked = False
            await self._publish(NewsKind.STATE, [e for e in self._endpoints.all() if _is_news(e)])
        if due := self._announcements.take_due():
            await self._publish(NewsKind.STATE, self._known(due))

    async def _publish(self, kind: NewsKind, endpoints: Sequence[Endpoint]) -> None:
        """Publish the news of some endpoints; without a broker a later beat repeats them.

        The loop gets a turn after each batch, however many there are.
        """
        for batch in agreement.batches(endpoints, AT_ONCE):
            now = self._context.clock.now()
            self._endpoints.steady(now)
            news = [_news(endpoint, now) for endpoint in batch]
            message = NewsMessage(kind, self._worker, news, self._subscriptions.trust.generation())
            publication = Publication(
                exchange=self._context.names.control,
                routing_key="",
                body=agreement.encode(message),
                mandatory=False,
            )
            try:
                await self._context.publisher.publish(publication)
            except BrokerUnavailable:
                return

    def _repeated(self) -> Sequence[Endpoint]:
        """Return the endpoints of a beat: those that changed lately, and those that are not closed.

        Where there are more than :data:`BEAT_ENDPOINTS` of a kind they take turns, so that the cost of a beat
        is bounded. A repetition heals a lost message; each change is published at once besides.
        """
        recent = self._recent.take(BEAT_ENDPOINTS, self._announcements.recent)
        unwell = self._unwell.take(BEAT_ENDPOINTS, self._not_closed)
        return self._known(dict.fromkeys((*recent, *unwell)))

    def _not_closed(self) -> Sequence[str]:
        return [e.subscription.id for e in self._endpoints.all() if not isinstance(e.breaker, Closed)]

    def _known(self, subscription_ids: Iterable[str]) -> Sequence[Endpoint]:
        found = map(self._endpoints.known, subscription_ids)
        return [endpoint for endpoint in found if endpoint is not None]

    def _count(self, now: float) -> None:
        workers = self._workers.count(now)
        self._endpoints.share(workers)
        self._context.observe.workers_counted(workers)


def _is_news(endpoint: Endpoint) -> bool:
    """Return whether an endpoint differs from one that no worker has met."""
    return bool(endpoint.breaker.epoch or endpoint.pace.held_until > 0 or endpoint.health.shared is not None)


def _news(endpoint: Endpoint, now: float) -> News:
    subscription = endpoint.subscription
    news = agreement.news_of((subscription.id, endpoint.id), endpoint.breaker, endpoint.pace.held_until, now)
    return agreement.with_health(news, endpoint.health.account, now)
