"""``leveret subscriptions list | show | export``: what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import orjson
import typer

from consumer.cli.options import examples
from consumer.cli.output import AsJson, errors_in_one_line, fail, print_fields, print_json, print_rows
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address, build, identity, read_entries
from consumer.core.access_text import describe_auth, describe_tls
from consumer.core.plain import printable
from consumer.core.retry import max_age_s, planned_delays_s
from consumer.core.signing import Ed25519Key, format_public
from consumer.core.subscription_export import as_yaml, exported
from consumer.core.subscription_model import SubscriptionRules
from consumer.core.subscription_set import StoredEntry
from consumer.core.subscription_steps import find, full_name, locked_text
from consumer.settings import load_settings

ShowSecrets = Annotated[
    bool, typer.Option("--show-secrets", help="Put the secrets in; keep what is written private.")
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


def list_(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Print every subscription; URLs without query, secrets never."""
    with errors_in_one_line():
        settings = load_settings()
        rules = settings.subscription_rules()
        entries = [entry for entry in read_entries(settings) if tenant in (None, entry.tenant)]
        rows = [_row(entry, rules) for entry in entries]
    columns = ("tenant", "name", "url", "events", "enabled", "retry", "id")
    whose = "" if tenant is None else f" of tenant {printable(tenant)}"
    empty = f"no subscriptions{whose}; see leveret subscriptions apply FILE"
    print_rows(columns, rows, as_json=as_json, empty=empty)


def show(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Print one subscription with everything that is in force for it; secrets never."""
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        settings = load_settings()
        entry = find(read_entries(settings), wanted)
        row = _details(entry, settings.subscription_rules())
    if as_json:
        print_json(row)
    else:
        print_fields(row)


def export(tenant: Tenant = None, show_secrets: ShowSecrets = False, as_json: AsOneObject = False) -> None:
    """Print a subscriptions file that `apply` takes back with no change.

    Values of headers and whole URLs stand in it, as they must; secrets only with --show-secrets, otherwise
    `***`, which keeps the one that is there. Exit 1 where secrets were to be shown and cannot be decrypted.
    """
    with errors_in_one_line():
        entries = [e for e in read_entries(load_settings()) if tenant in (None, e.tenant)]
        document = exported(entries, secrets=show_secrets)
    typer.echo(orjson.dumps(document).decode() if as_json else as_yaml(document).rstrip("\n"))
    locked = [entry for entry in entries if entry.locked is not None] if show_secrets else []
    if locked:
        fail("\n".join(f"{full_name(one)}: its secrets are left out: {locked_text(one)}" for one in locked))


def _row(entry: StoredEntry, rules: SubscriptionRules) -> Mapping[str, object]:
    built = build(entry, rules)
    return {
        **identity(entry),
        "events": list(entry.events),
        "enabled": entry.enabled,
        "disabled_reason": entry.disabled_reason,
        "disabled_at": entry.disabled_at,
        "locked": entry.locked,
        "secrets": len(entry.secrets),
        "retry": built.retry.name,
        "max_attempts": built.retry.max_attempts,
        "concurrency": built.concurrency,
        "timeout_s": built.timeout_s,
        "breaker_failures": built.breaker.failures,
        "breaker_cooldown_s": built.breaker.cooldown_s,
        "headers": sorted(entry.headers),
    }


def _details(entry: StoredEntry, rules: SubscriptionRules) -> Mapping[str, object]:
    built = build(entry, rules)
    keys = [
        f"v1a {format_public(key)}" if isinstance(key, Ed25519Key) else "v1 (HMAC-SHA256)"
        for key in entry.signing_keys()
    ]
    return {
        **_row(entry, rules),
        "signed_with": keys,
        "rate_per_s": built.rate_per_s,
        "burst": built.burst,
        "auth": describe_auth(entry.auth),
        "tls": describe_tls(entry.tls),
        "on_status": {status: rule.value for status, rule in entry.on_status.items()},
        "delays_s": list(planned_delays_s(built.retry)),
        "max_age_s": max_age_s(built.retry),
        "breaker_failure_ratio": built.breaker.failure_ratio,
        "breaker_window_s": built.breaker.window_s,
        "breaker_min_requests": built.breaker.min_requests,
        "breaker_cooldown_max_s": built.breaker.cooldown_max_s,
        "breaker_probe_timeout_s": built.breaker.probe_timeout_s,
    }
