"""Give the Observer the state of the endpoints that are in trouble, once a second.

Data flow: Observer names the subscriptions -> Subscriptions, Endpoints -> :class:`EndpointNow` -> Observer.
"""

from __future__ import annotations

from consumer.core.endpoint.breaker import Open
from consumer.core.endpoint.trouble_book import EndpointNow
from consumer.core.subscription.subscription import Subscription
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.observe.observer import Observer
from consumer.flow.store.subscriptions import Subscriptions


class EndpointTroubles:
    """Looks at the endpoints of one worker."""

    def __init__(self, subscriptions: Subscriptions, endpoints: Endpoints, observe: Observer) -> None:
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._observe = observe

    def look(self, now: float) -> None:
        """Bring the series of subscriptions up to date; *now* is in Unix seconds."""
        troubles = self._observe.troubles
        found = {each: self._subscriptions.get(each) for each in troubles.wanted(now)}
        endpoints = {each: self._now(one) for each, one in found.items() if one is not None}
        troubles.look(endpoints, now, self._is_set_aside)
        self._observe.secrets_checked(now)

    def _is_set_aside(self, subscription_id: str) -> bool:
        """Return whether a breaker was opened by hand, or its subscription is disabled or paused."""
        subscription, endpoint = (
            self._subscriptions.get(subscription_id),
            self._endpoints.known(subscription_id),
        )
        if subscription is None or endpoint is None or not subscription.enabled or subscription.paused:
            return True
        return isinstance(endpoint.breaker, Open) and endpoint.breaker.forced

    def _now(self, subscription: Subscription) -> EndpointNow:
        now = EndpointNow(subscription.tenant, subscription.name, is_enabled=subscription.enabled)
        endpoint = self._endpoints.known(subscription.id)
        if endpoint is None:
            return now
        return now._replace(
            successes=endpoint.health.successes,
            failures=endpoint.health.failures,
            p95_s=endpoint.latency.p95_s,
            slow_ratio=endpoint.latency.slow_ratio,
            state=endpoint.state,
        )
