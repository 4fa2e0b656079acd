"""Describe a stored subscription with its effective settings and without its secrets.

Data flow: StoredEntry + rules + pauses -> :func:`see` -> :class:`Seen` -> :func:`row_of` or
:func:`details_of` -> command line, API and pages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.secret_overlap import describe_secrets
from consumer.core.errors import ConfigError
from consumer.core.retry.policy import max_age_s, planned_delays_s
from consumer.core.subscription.access_text import describe_auth, describe_tls
from consumer.core.subscription.pauses import paused
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.core.text.urls import show_url
from consumer.core.webhook.signing import Ed25519Key, format_public


@dataclass(frozen=True, slots=True)
class Seen:
    """One entry with its effective settings."""

    entry: StoredEntry
    built: Subscription  #: without the entry's retry policy if that one is unusable
    paused: bool
    fault: str | None  #: of its retry policy; meanwhile the daemon sends nothing to it


def see(entry: StoredEntry, rules: SubscriptionRules, pauses: Collection[tuple[str, str]]) -> Seen:
    """Return *entry* with its effective settings.

    Args:
        entry: The stored entry.
        rules: Defaults of its missing fields.
        pauses: Keys of all pauses.
    """
    fault = None
    try:
        built = entry.build(rules)
    except ConfigError as error:
        built, fault = entry.model_copy(update={"retry": None}).build(rules), str(error)
    return Seen(entry, built, paused(pauses, entry.tenant, entry.id), fault)


def identity(entry: StoredEntry) -> dict[str, object]:
    """Return the fields that identify a subscription."""
    return {
        "id": entry.id,
        "endpoint": endpoint_id(entry.tenant, entry.url),
        "tenant": entry.tenant,
        "name": entry.label,
        "url": show_url(entry.url),
    }


def row_of(seen: Seen) -> Mapping[str, object]:
    """Return the fields of a list."""
    entry, built = seen.entry, seen.built
    retry = built.retry if seen.fault is None else None
    return {
        **identity(entry),
        "events": list(entry.events),
        "enabled": entry.enabled,
        "disabled_reason": entry.disabled_reason,
        "disabled_at": entry.disabled_at,
        "paused": seen.paused,
        "locked": entry.locked,
        "fault": seen.fault,
        "secrets": len(entry.secrets),
        "retry": None if retry is None else retry.name,
        "max_attempts": None if retry is None else retry.max_attempts,
        "concurrency": built.concurrency,
        "timeout_s": built.timeout_s,
        "breaker_failures": built.breaker.failures,
        "breaker_cooldown_s": built.breaker.cooldown_s,
        "headers": sorted(entry.headers),
    }


def details_of(seen: Seen, now: float) -> Mapping[str, object]:
    """Return every effective setting; *now* is in Unix seconds."""
    entry, built = seen.entry, seen.built
    retry = built.retry if seen.fault is None else None
    keys = [
        f"v1a {format_public(key)}" if isinstance(key, Ed25519Key) else "v1 (HMAC-SHA256)"
        for key in entry.signing_keys()
    ]
    return {
        **row_of(seen),
        "signed_with": keys,
        "secret_ages": list(describe_secrets(entry.replaced_at, entry.ends_at, len(keys), now)),
        "send_trace": built.send_trace,
        "rate_per_s": built.rate_per_s,
        "burst": built.burst,
        "auth": describe_auth(entry.auth),
        "tls": describe_tls(entry.tls),
        "on_status": {status: rule.value for status, rule in entry.on_status.items()},
        "delays_s": None if retry is None else list(planned_delays_s(retry)),
        "max_age_s": None if retry is None else max_age_s(retry),
        "breaker_failure_ratio": built.breaker.failure_ratio,
        "breaker_window_s": built.breaker.window_s,
        "breaker_min_requests": built.breaker.min_requests,
        "breaker_cooldown_max_s": built.breaker.cooldown_max_s,
        "breaker_probe_timeout_s": built.breaker.probe_timeout_s,
    }
