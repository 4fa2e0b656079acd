"""``leveret subscriptions list | show | export``: print the stored subscriptions."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import orjson
import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_fields, print_json, print_rows
from consumer.cli.subscriptions.shared import (
    Name,
    Tenant,
    Which,
    address,
    identity,
    read_entries,
    read_with_pauses,
)
from consumer.core.changes.export import as_yaml, export_document
from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.secret_overlap import describe_secrets
from consumer.core.changes.steps import find, full_name, locked_text
from consumer.core.errors import ConfigError
from consumer.core.retry.policy import max_age_s, planned_delays_s
from consumer.core.subscription.access_text import describe_auth, describe_tls
from consumer.core.subscription.entry import SubscriptionRules
from consumer.core.subscription.pauses import paused
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.printable import printable
from consumer.core.webhook.signing import Ed25519Key, format_public
from consumer.settings import load_settings

ShowSecrets = Annotated[
    bool, typer.Option("--show-secrets", help="Include the secrets; keep the output private.")
]
AsOneObject = Annotated[bool, typer.Option("--json", help="Write JSON, on one line, instead of YAML.")]


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command(
        "list",
        epilog=examples(
            "leveret subscriptions list --tenant acme", "leveret subscriptions list --json | jq .url"
        ),
    )(list_)
    app.command(
        "show",
        epilog=examples(
            "leveret subscriptions show acme/shop", "leveret subscriptions show sub_015283ee3ad87156 --json"
        ),
    )(show)
    app.command(
        "export",
        epilog=examples(
            "leveret subscriptions export > subscriptions.yaml",
            "leveret subscriptions export --tenant acme --show-secrets",
        ),
    )(export)


@dataclass(frozen=True, slots=True)
class _Seen:
    """One entry with its effective settings."""

    entry: StoredEntry
    built: Subscription  #: without the entry's retry policy if that one is unusable
    paused: bool
    fault: str | None  #: of its retry policy; meanwhile the daemon sends nothing to it


def list_(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Print every subscription, URLs without query and no secrets. Exit 1 if a retry policy is unusable."""
    with errors_in_one_line():
        settings = load_settings()
        entries, pauses = read_with_pauses(settings)
        rules = settings.subscription_rules()
        seen = [_see(entry, rules, pauses) for entry in entries if tenant in (None, entry.tenant)]
    columns = ("tenant", "name", "url", "events", "enabled", "paused", "retry", "id")
    whose = "" if tenant is None else f" of tenant {printable(tenant)}"
    empty = f"no subscriptions{whose}; see leveret subscriptions apply FILE"
    print_rows(columns, [_row(one) for one in seen], as_json=as_json, empty=empty)
    _fail_of(seen)


def show(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Print one subscription with all its effective settings, but no secrets."""
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        settings = load_settings()
        entries, pauses = read_with_pauses(settings)
        seen = _see(find(entries, wanted), settings.subscription_rules(), pauses)
    if as_json:
        print_json(_details(seen))
    else:
        print_fields(_details(seen))
    _fail_of([seen])


def export(tenant: Tenant = None, show_secrets: ShowSecrets = False, as_json: AsOneObject = False) -> None:
    """Print a subscriptions file; `apply` takes it back without a change.

    It contains header values and whole URLs. Secrets are in it only with --show-secrets; otherwise `***`
    keeps the stored one.  Exit 1 if a secret that was asked for cannot be decrypted.
    """
    with errors_in_one_line():
        entries = [e for e in read_entries(load_settings()) if tenant in (None, e.tenant)]
        document = export_document(entries, secrets=show_secrets, now=time.time())
    typer.echo(orjson.dumps(document).decode() if as_json else as_yaml(document).rstrip("\n"))
    locked = [entry for entry in entries if entry.locked is not None] if show_secrets else []
    if locked:
        fail("\n".join(f"{full_name(one)}: its secrets are left out: {locked_text(one)}" for one in locked))


def _see(entry: StoredEntry, rules: SubscriptionRules, pauses: Collection[tuple[str, str]]) -> _Seen:
    fault = None
    try:
        built = entry.build(rules)
    except ConfigError as error:
        built, fault = entry.model_copy(update={"retry": None}).build(rules), str(error)
    return _Seen(entry, built, paused(pauses, entry.tenant, entry.id), fault)


def _fail_of(seen: Sequence[_Seen]) -> None:
    """Print a line for each entry with a fault, and exit with 1 if there is one."""
    faults = [f"{full_name(one.entry)}: {one.fault}" for one in seen if one.fault is not None]
    if faults:
        fail("\n".join(faults))


def _row(seen: _Seen) -> Mapping[str, object]:
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


def _details(seen: _Seen) -> Mapping[str, object]:
    entry, built = seen.entry, seen.built
    retry = built.retry if seen.fault is None else None
    keys = [
        f"v1a {format_public(key)}" if isinstance(key, Ed25519Key) else "v1 (HMAC-SHA256)"
        for key in entry.signing_keys()
    ]
    return {
        **_row(seen),
        "signed_with": keys,
        "secret_ages": describe_secrets(entry.replaced_at, entry.ends_at, len(keys), time.time()),
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
