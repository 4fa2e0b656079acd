"""Define the settings of the store that its database does not need."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from consumer.core.subscription.rules import SubscriptionRules


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Defaults of subscriptions, retention and clock."""

    rules: SubscriptionRules  #: defaults of a subscription's missing fields
    parked_ttl_s: float  #: seconds for which the parked queue keeps an entry
    now: Callable[[], float] = time.time  #: returns Unix seconds
