"""Define the values that the settings give to every subscription.

Every command reads the settings, and few need the models of a subscriptions file, so this module imports
none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.endpoint.egress import EgressRule
from consumer.core.retry.policy import POLICIES, RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRules:
    """Defaults for fields that an entry leaves out, and the addresses that webhooks may reach."""

    #: the policies that ``retry.policy`` may name
    policies: Mapping[str, RetryPolicy] = field(default_factory=lambda: POLICIES)
    retry: RetryPolicy = POLICIES["default"]
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    concurrency: int = 16  #: requests in flight to one endpoint
    timeout_s: float = 15.0  #: total deadline of one attempt
    egress: EgressRule = field(default_factory=EgressRule)
