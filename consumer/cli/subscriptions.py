"""``leveret subscriptions apply | list``: put a subscriptions file into the store, and look at what is there.

Data flow: YAML file -> parse_subscriptions -> merge, in the store -> what changed; a daemon sees it in 1 s.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from consumer.cli.output import AsJson, errors_in_one_line, print_json, print_rows, warn
from consumer.core.errors import ConfigError
from consumer.core.signing import format_secret
from consumer.core.subscription import endpoint_id
from consumer.core.subscription_file import parse_subscriptions
from consumer.core.subscription_model import SubscriptionRules
from consumer.core.subscription_set import Merge, StoredEntry, merge
from consumer.core.urls import show_url
from consumer.edges.store import Step, open_store
from consumer.settings import Settings, load_settings

SECRET_BYTES = 32
"""Length of a generated secret. Source: SW-09 (24 to 64 bytes)."""

app = typer.Typer(help="Who gets which events.", no_args_is_help=True)

File = Annotated[str, typer.Argument(metavar="FILE", help="Subscriptions file in YAML; - is stdin.")]
Prune = Annotated[bool, typer.Option("--prune", help="Remove what the file does not name.")]
Enable = Annotated[
    bool, typer.Option("--enable", help="Enable again what was disabled after a 410 or a long failure.")
]


@app.command()
def apply(file: File, prune: Prune = False, enable: Enable = False, as_json: AsJson = False) -> None:
    """Bring FILE into the store; applied twice it changes nothing. A generated secret is shown once, here."""
    with errors_in_one_line():
        settings = load_settings()
        rules = settings.subscription_rules()
        parsed = parse_subscriptions(_read(file), file, rules)
        merged = asyncio.run(
            _change(settings, lambda kept: merge(kept, parsed.entries, _secret, prune=prune, enable=enable))
        )
    for warning in parsed.warnings:
        warn(warning)
    for entry in merged.still_disabled:
        since = f"{entry.disabled_at} ({entry.disabled_reason})"
        remedy = "change its url or apply with --enable"
        warn(f"{entry.tenant}/{entry.label} stays disabled since {since}; {remedy}")
    (_print_json if as_json else _print_text)(merged)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Print every subscription; URLs without query, secrets never."""
    with errors_in_one_line():
        settings = load_settings()
        rules = settings.subscription_rules()
        rows = [_row(entry, rules) for entry in asyncio.run(_entries(settings))]
    columns = ("tenant", "name", "url", "events", "enabled", "retry", "id")
    print_rows(columns, rows, as_json=as_json, empty="no subscriptions; see leveret subscriptions apply FILE")


async def _change(settings: Settings, step: Step) -> Merge:
    store = open_store(settings)
    try:
        return await store.change(step)
    finally:
        await store.close()


async def _entries(settings: Settings) -> Sequence[StoredEntry]:
    store = open_store(settings)
    try:
        return await store.entries()
    finally:
        await store.close()


def _secret() -> str:
    return format_secret(secrets.token_bytes(SECRET_BYTES))


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not UTF-8 text; save it as UTF-8") from None


def _changes(merged: Merge) -> Iterable[tuple[str, StoredEntry]]:
    for change in ("added", "changed", "unchanged", "removed"):
        for entry in getattr(merged, change):
            yield change, entry


def _print_json(merged: Merge) -> None:
    generated = {entry.id for entry in merged.generated}
    for change, entry in _changes(merged):
        row: dict[str, object] = {"change": change, **_identity(entry)}
        if entry.id in generated:
            row["secret"] = entry.secrets[0].get_secret_value()
        print_json(row)


def _print_text(merged: Merge) -> None:
    for change, entry in _changes(merged):
        if change != "unchanged":
            typer.echo(f"{change} {entry.tenant}/{entry.label} -> {show_url(entry.url)}")
    for entry in merged.generated:
        secret = entry.secrets[0].get_secret_value()
        typer.echo(f"secret of {entry.tenant}/{entry.label}, shown this once: {secret}")
    counts = [
        f"{len(getattr(merged, change))} {change}" for change in ("added", "changed", "unchanged", "removed")
    ]
    typer.echo(", ".join(counts))


def _identity(entry: StoredEntry) -> dict[str, object]:
    return {
        "id": entry.id,
        "endpoint": endpoint_id(entry.tenant, entry.url),
        "tenant": entry.tenant,
        "name": entry.label,
        "url": show_url(entry.url),
    }


def _row(entry: StoredEntry, rules: SubscriptionRules) -> Mapping[str, object]:
    built = entry.build(rules)
    return {
        **_identity(entry),
        "events": list(entry.events),
        "enabled": entry.enabled,
        "disabled_reason": entry.disabled_reason,
        "disabled_at": entry.disabled_at,
        "secrets": len(entry.secrets),
        "retry": built.retry.name,
        "max_attempts": built.retry.max_attempts,
        "concurrency": built.concurrency,
        "timeout_s": built.timeout_s,
        "breaker_failures": built.breaker.failures,
        "breaker_cooldown_s": built.breaker.cooldown_s,
        "headers": sorted(entry.headers),
    }
