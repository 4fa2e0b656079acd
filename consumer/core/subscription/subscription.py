"""A subscription and its policies, as plain values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from consumer.core.access import Access
from consumer.core.endpoint.breaker import BreakerPolicy
from consumer.core.errors import ConfigError
from consumer.core.retry.outcomes import StatusRule
from consumer.core.retry.policy import RetryPolicy
from consumer.core.webhook.signing import SigningKey

_ID: Final = re.compile(r"sub_[0-9a-f]{16}")

IDS_KNOWN: Final = 10_000
"""Ids that are remembered: each change of the store asks for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The endpoint to which a tenant's events of certain types are sent, and the rules for sending.

    A tenant has one subscription per URL, so that breaker, concurrency and secrets exist once per endpoint.
    """

    id: str  #: unchanged when the URL changes: see :func:`subscription_id`
    tenant: str
    name: str
    url: str
    events: Sequence[str]  #: AMQP topic patterns on the event type
    keys: Sequence[SigningKey]  #: newest first; each signs every webhook; empty if the subscription is locked
    retry: RetryPolicy
    breaker: BreakerPolicy
    on_status: Mapping[str, StatusRule] = field(default_factory=dict)  #: "404" or "5xx" -> rule
    concurrency: int = 16  #: requests in flight to this endpoint, per worker
    rate_per_s: float | None = None  #: requests a second to this endpoint, by all workers; None is no limit
    burst: int | None = None  #: requests that may start together under a rate; None: those of 0.1 s
    timeout_s: float = 15.0  #: total deadline of one attempt
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)  #: sent with every webhook
    send_trace: bool = False  #: send ``traceparent`` and ``tracestate`` of an event on
    access: Access | None = None  #: the endpoint's own TLS and OAuth2; None if it needs neither
    enabled: bool = True
    disabled_itself: bool = False  #: disabled by Leveret, not by an operator or a file
    gone: bool = False  #: disabled after days without a success, so probes may still be sent
    paused: bool = False  #: by an operator: nothing is sent, deliveries wait
    locked: str | None = None  #: why nothing is sent and deliveries are parked: secrets or policy are missing
    key_ends: Sequence[
        int
    ] = ()  #: Unix seconds after which each of *keys* signs no more, 0: never; empty: none ends

    @property
    def shown(self) -> str:
        """``tenant/name``, by which logs and commands name it."""
        return f"{self.tenant}/{self.name}"

    def keys_at(self, now: float) -> Sequence[SigningKey]:
        """Return the keys that sign at *now* (Unix seconds); the newest always does."""
        if not self.key_ends:
            return self.keys
        pairs = zip(self.keys, self.key_ends, strict=True)
        return [key for key, end in pairs if not end or now < end]


@lru_cache(maxsize=IDS_KNOWN)
def subscription_id(tenant: str, name: str) -> str:
    """Return ``sub_`` and 16 hex digits of SHA-256(tenant, 0x00, name)."""
    return "sub_" + _digest(tenant, name)


def id_of(text: str) -> str:
    """Return the id of a subscription that is named by its id or as ``tenant/name``; it need not exist.

    Raises:
        ConfigError: *text* is neither.
    """
    if _ID.fullmatch(text):
        return text
    tenant, slash, name = text.partition("/")
    if not (tenant and slash and name):
        raise ConfigError(f"{text!r} is not a subscription; write tenant/name, or its id sub_...")
    return subscription_id(tenant, name)


def endpoint_id(tenant: str, url: str) -> str:
    """Return the first 16 hex digits of SHA-256(tenant, 0x00, URL)."""
    return _digest(tenant, url)


def _digest(tenant: str, rest: str) -> str:
    return hashlib.sha256(tenant.encode() + b"\0" + rest.encode()).hexdigest()[:16]
