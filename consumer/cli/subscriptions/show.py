"""``leveret subscriptions list | show | export``: print the stored subscriptions."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
    read_entries,
    read_with_pauses,
)
from consumer.core.changes.export import as_yaml, export_document
from consumer.core.changes.steps import find, full_name, locked_text
from consumer.core.changes.view import Seen, details_of, row_of, see
from consumer.core.text.printable import printable
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


def list_(tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Print every subscription, URLs without query and no secrets. Exit 1 if a retry policy is unusable."""
    with errors_in_one_line():
        settings = load_settings()
        entries, pauses = read_with_pauses(settings)
        rules = settings.subscription_rules()
        seen = [see(entry, rules, pauses) for entry in entries if tenant in (None, entry.tenant)]
    columns = ("tenant", "name", "url", "events", "enabled", "paused", "retry", "id")
    whose = "" if tenant is None else f" of tenant {printable(tenant)}"
    empty = f"no subscriptions{whose}; see leveret subscriptions apply FILE"
    print_rows(columns, [row_of(one) for one in seen], as_json=as_json, empty=empty)
    _fail_of(seen)


def show(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Print one subscription with all its effective settings, but no secrets."""
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        settings = load_settings()
        entries, pauses = read_with_pauses(settings)
        seen = see(find(entries, wanted), settings.subscription_rules(), pauses)
    if as_json:
        print_json(details_of(seen, time.time()))
    else:
        print_fields(details_of(seen, time.time()))
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


def _fail_of(seen: Sequence[Seen]) -> None:
    """Print a line for each entry with a fault, and exit with 1 if there is one."""
    faults = [f"{full_name(one.entry)}: {one.fault}" for one in seen if one.fault is not None]
    if faults:
        fail("\n".join(faults))
