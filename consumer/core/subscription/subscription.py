"""A subscription and the policies that it carries, as plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from consumer.core.access import Access
from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.retry.outcomes import StatusRule
from consumer.core.retry.policy import RetryPolicy
from consumer.core.webhook.signing import SigningKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Where one tenant wants some of its events, and how.

    A tenant has one subscription per URL, so breaker, concurrency and secrets have one place.
    """

    id: str  #: stable over changes of the URL: see :func:`subscription_id`
    tenant: str
    name: str
    url: str
    events: Sequence[str]  #: AMQP topic patterns on the event type
    keys: Sequence[SigningKey]  #: newest first; each signs every webhook; none where it is locked
    retry: RetryPolicy
    breaker: BreakerPolicy
    on_status: Mapping[str, StatusRule] = field(default_factory=dict)  #: "404" or "5xx" -> rule
    concurrency: int = 16  #: requests in flight to this endpoint, per worker
    rate_per_s: float | None = None  #: requests a second to this endpoint, by all workers; None is no limit
    burst: int | None = None  #: requests that may start together under a rate; None: a tenth of a second's
    timeout_s: float = 15.0  #: total deadline of one attempt
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)  #: sent with every webhook
    access: Access | None = None  #: its own TLS and OAuth2; None: nothing beyond the headers
    enabled: bool = True
    gone: bool = False  #: disabled since its endpoint took nothing for days: it may be probed
    paused: bool = False  #: by an operator: nothing is sent, what comes waits
    locked: str | None = None  #: why nothing is sent and what comes is parked: secrets or policy are gone


def subscription_id(tenant: str, name: str) -> str:
    """Return ``sub_`` and 16 hex digits of SHA-256(tenant, 0x00, name)."""
    return "sub_" + _digest(tenant, name)


def endpoint_id(tenant: str, url: str) -> str:
    """Return the first 16 hex digits of SHA-256(tenant, 0x00, URL)."""
    return _digest(tenant, url)


def _digest(tenant: str, rest: str) -> str:
    return hashlib.sha256(tenant.encode() + b"\0" + rest.encode()).hexdigest()[:16]
