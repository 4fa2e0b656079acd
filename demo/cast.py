"""Define the demo's five tenants, six endpoints, and policies that end every delivery within seconds.

Data flow: ENDPOINTS, TENANTS -> settings and subscriptions as files -> the daemon.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import yaml

from consumer.core.webhook.signing import format_secret

TENANTS: Final = ("acme", "birch", "cedar", "dune", "ember")
TYPES: Final = ("order.created", "order.paid", "order.shipped", "invoice.paid")
GONE_AFTER: Final = 25  #: requests that the endpoint accepts before it is gone
BUSY_S: Final = 3  #: seconds that the busy endpoint sends as Retry-After
LONGEST_S: Final = 10  #: age in seconds at which a delivery is given up
RETRY: Final[Mapping[str, object]] = {
    "max_attempts": 5,
    "base_s": 0.5,
    "multiplier": 2,
    "max_s": 4,
    "max_age_s": LONGEST_S,
}
BREAKER: Final[Mapping[str, object]] = {"failures": 5, "cooldown_s": 4, "cooldown_max_s": 4}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint and the tenants that subscribed it."""

    name: str
    path: str  #: path at ``leveret listen``, with its behaviour
    does: str  #: its answers, in words for people
    tenants: Sequence[str]


ENDPOINTS: Final = (
    Endpoint("healthy", "/healthy", "200 at once", TENANTS),
    Endpoint("slow", "/slow?delay=2", "200 in 2 s", ("acme",)),
    Endpoint("flaky", "/flaky?fail-ratio=0.3", "3 of 10 fail", ("birch",)),
    Endpoint("dead", "/dead", "503, always", ("cedar",)),
    Endpoint("gone", f"/gone?gone-after={GONE_AFTER}", f"410 after {GONE_AFTER}", ("dune",)),
    Endpoint("busy", f"/busy?retry-after={BUSY_S}&every=30", f"429 for {BUSY_S} s", ("ember",)),
)
"""Every event of a tenant goes to two of them: the healthy one, and one with a trouble of its own."""

SETTINGS: Final = """\
# Written by `make demo`. Few queues make a fast start; all other settings have their defaults.
listen = "127.0.0.1:0"

[topology]
lanes = 4
due_queues = 2
spill_queues = 1
rungs_s = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12]

[egress]
allow = ["127.0.0.0/8"]

[log]
format = "json"
"""


def endpoints_of(tenant: str) -> Sequence[Endpoint]:
    """Return the endpoints that receive the events of *tenant*."""
    return [endpoint for endpoint in ENDPOINTS if tenant in endpoint.tenants]


def new_secrets() -> dict[tuple[str, str], str]:
    """Return a new secret for each subscription: (tenant, name of the endpoint) -> secret."""
    return {
        (tenant, endpoint.name): format_secret(secrets.token_bytes(32))
        for endpoint in ENDPOINTS
        for tenant in endpoint.tenants
    }


def subscriptions(base_url: str, secret_of: Mapping[tuple[str, str], str]) -> str:
    """Return the subscriptions file.

    Args:
        base_url: URL of the endpoints, without a slash at the end.
        secret_of: Secrets from :func:`new_secrets`.
    """
    entries = [
        {
            "tenant": tenant,
            "name": endpoint.name,
            "url": base_url + endpoint.path,
            "events": ["order.*", "invoice.paid"],
            "secrets": [secret_of[tenant, endpoint.name]],
            "retry": dict(RETRY),
            "breaker": dict(BREAKER),
        }
        for endpoint in ENDPOINTS
        for tenant in endpoint.tenants
    ]
    return yaml.safe_dump({"subscriptions": entries}, sort_keys=False)
