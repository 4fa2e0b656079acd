"""Subscriptions files for tests: the documented entry, and files of one entry."""

from __future__ import annotations

import json

import pytest

from consumer.core.changes.file import Parsed, parse_subscriptions
from consumer.core.errors import ConfigError
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription

RULES = SubscriptionRules()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
CONTRACT = f"""subscriptions:
  - tenant: acme
    name: shop
    url: https://hooks.acme.example/orders
    events: ["order.*", "invoice.paid"]   # AMQP topic rules on the event type
    secrets: ["{SECRET}"]                # absent: generated; shown once
    retry: {{policy: default}}              # or its fields
    on_status: {{"404": park, "410": disable}}
    breaker: {{failures: 5, cooldown_s: 30}}
    concurrency: 16
    timeout_s: 15
    headers: {{x-api-version: "2"}}
    enabled: true
"""


def parse(text: str, rules: SubscriptionRules = RULES) -> Parsed:
    """Read *text* as the file ``f``."""
    return parse_subscriptions(text, "f", rules)


def faults(text: str, rules: SubscriptionRules = RULES) -> list[str]:
    """Return the lines of the error that *text* causes."""
    with pytest.raises(ConfigError) as raised:
        parse(text, rules)
    return str(raised.value).splitlines()


def entry(**fields: object) -> str:
    """Return a file with one entry; a field of None is left out."""
    values = {"url": "https://a.example/", "events": ["#"], **fields}
    return json.dumps({"subscriptions": [{k: v for k, v in values.items() if v is not None}]})


def build(rules: SubscriptionRules = RULES, **fields: object) -> Subscription:
    """Return the subscription of a one-entry file."""
    (only,) = parse(entry(**fields), rules).entries
    return only.build(rules)
