"""Subscriptions and endpoints for tests of the flow."""

from __future__ import annotations

from typing import Any

from consumer.core.endpoint.admission import Hold, Send, Wait
from consumer.core.endpoint.breaker import BreakerPolicy, Closed
from consumer.core.model import Outcome, OutcomeKind
from consumer.core.retry.policy import POLICIES
from consumer.core.subscription.subscription import Subscription
from consumer.core.webhook.signing import HmacKey
from consumer.flow.base.context import Bounds
from consumer.flow.endpoints.endpoint import Endpoint

OK = Outcome(kind=OutcomeKind.OK, status=200, duration_s=0.05)
FAILED = Outcome(kind=OutcomeKind.HTTP_5XX, status=503, duration_s=0.05)
BLOCKED = Outcome(kind=OutcomeKind.BLOCKED, duration_s=0.0)
POLICY = BreakerPolicy(failures=5, cooldown_s=30.0)


def subscription(**fields: Any) -> Subscription:
    """A subscription with few slots."""
    values: dict[str, Any] = {
        "id": "sub_1",
        "tenant": "acme",
        "name": "shop",
        "url": "https://shop.example/",
        "events": ("#",),
        "keys": (HmacKey(b"x" * 32),),
        "retry": POLICIES["default"],
        "breaker": POLICY,
        "concurrency": 4,
    }
    return Subscription(**values | fields)


def endpoint(bounds: Bounds | None = None, **fields: Any) -> Endpoint:
    """An endpoint that nothing is known of yet."""
    return Endpoint(subscription(**fields), bounds or Bounds())


def admit(target: Endpoint, now: float, *, fresh: bool = False, reserved: bool = False) -> Send | Wait | Hold:
    """Ask for one request."""
    return target.admit(now, fresh=fresh, reserved=reserved)


def answered(target: Endpoint, outcome: Outcome, now: float, epoch: int | None = None) -> None:
    """End one request that was admitted."""
    target.learn(outcome, target.breaker.epoch if epoch is None else epoch, now, 0.0)
    target.slots.release()


def open_breaker(target: Endpoint, now: float) -> None:
    """Fail until the breaker is open."""
    while isinstance(target.breaker, Closed):
        assert isinstance(admit(target, now), Send)
        answered(target, FAILED, now)


def recovering(now: float, **fields: Any) -> Endpoint:
    """An endpoint whose probe was taken at *now*."""
    shop = endpoint(**fields)
    open_breaker(shop, now - 30)
    probe = admit(shop, now)
    assert isinstance(probe, Send)
    answered(shop, OK, now, probe.epoch)
    return shop
