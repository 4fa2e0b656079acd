"""Keep the news of endpoints that this worker has not met yet, from the store and from other workers.

Data flow: the store at the start, Agreement later -> :class:`PriorKnowledge` -> Endpoints, at the first
request to an endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from consumer.core.endpoint.agreement import News, adopted, outdoes, outranks, remembered
from consumer.core.endpoint.breaker import State
from consumer.core.endpoint.health import Health, set_back
from consumer.core.message.records import EndpointState
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.core.text.retry_after import RETRY_AFTER_MAX_S


class Known(NamedTuple):
    """The prior knowledge of one endpoint."""

    breaker: State | None = None
    health: Health | None = None
    held_until: float = 0.0  #: Unix seconds; the end of a ``Retry-After`` from before a restart


class PriorKnowledge:
    """The prior knowledge of all endpoints; each part of it is taken once."""

    def __init__(self) -> None:
        self._news: dict[str, News] = {}  #: by subscription id
        self._states: dict[str, EndpointState] = {}  #: by subscription id
        self._healths: dict[str, Health] = {}  #: by endpoint id
        self._holds: dict[str, float] = {}  #: by endpoint id: Unix seconds

    def remember(self, states: Iterable[EndpointState], healths: Mapping[str, Health]) -> None:
        """Take the states and healths in the store; the healths by endpoint id."""
        self._states = {state.subscription_id: state for state in states if state.epoch > 0}
        self._healths = dict(healths)

    def remember_holds(self, holds: Mapping[str, float]) -> None:
        """Take the ends of the pauses in the store, in Unix seconds by endpoint id."""
        self._holds = dict(holds)

    def add(self, news: News) -> None:
        """Keep the news of another worker, unless better ones are known."""
        older = self._news.get(news.subscription)
        if older is None or outdoes(news, older):
            self._news[news.subscription] = news

    def take(self, subscription: Subscription, now: float, sample: Callable[[], float]) -> Known:
        """Return and forget the knowledge of an endpoint that this worker meets now.

        Args:
            subscription: Of the endpoint.
            now: Unix seconds.
            sample: Returns a number that is uniform in [0, 1).
        """
        news = self._news.pop(subscription.id, None)
        stored = self._states.pop(subscription.id, None)
        here = endpoint_id(subscription.tenant, subscription.url)
        state: State | None = None
        if stored is not None and stored.endpoint == here:
            state = remembered(stored.state, stored.epoch, stored.since, subscription.breaker)
        if news is not None and (state is None or outranks(news, state)):
            state = adopted(news, now, sample())
        held_until = self._holds.pop(here, 0.0)
        if held_until > now + RETRY_AFTER_MAX_S:  # written by a clock that was set back since
            held_until = 0.0
        return Known(state, self._healths.pop(here, None), held_until)

    def keep(self, subscription_ids: Collection[str]) -> None:
        """Forget the news and states of all other subscriptions: they were removed."""
        for gone in self._news.keys() - subscription_ids:
            del self._news[gone]
        for gone in self._states.keys() - subscription_ids:
            del self._states[gone]

    def set_back(self, by_s: float) -> None:
        """Keep every wait and every age: the wall clock was set back by so many seconds, or forward."""
        self._holds = {endpoint: until - by_s for endpoint, until in self._holds.items()}
        self._healths = {
            endpoint: Health(set_back(known.failing, by_s), max(known.taken_at - by_s, 0.0))
            for endpoint, known in self._healths.items()
        }
