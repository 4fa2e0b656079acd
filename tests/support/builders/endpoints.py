"""Subscriptions and endpoints for tests of the flow."""

from __future__ import annotations

from typing import Any

from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.retry.policy import POLICIES
from consumer.core.subscription.subscription import Subscription
from consumer.core.webhook.signing import HmacKey

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
