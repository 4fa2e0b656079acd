"""``leveret subscriptions list | show | export``: print the stored subscriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import orjson
import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_fields, print_json, print_rows
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address
from consumer.cli.subscriptions.source import subscriptions
from consumer.core.changes.export import as_yaml
from consumer.core.text.printable import printable

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
        rows = subscriptions().listed(tenant)
    columns = ("tenant", "name", "url", "events", "enabled", "paused", "retry", "id")
    whose = "" if tenant is None else f" of tenant {printable(tenant)}"
    empty = f"no subscriptions{whose}; see leveret subscriptions apply FILE"
    print_rows(columns, rows, as_json=as_json, empty=empty)
    _fail_of(rows)


def show(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Print one subscription with all its effective settings, but no secrets."""
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        details = subscriptions().details(wanted)
    if as_json:
        print_json(details)
    else:
        print_fields(details)
    _fail_of([details])


def export(tenant: Tenant = None, show_secrets: ShowSecrets = False, as_json: AsOneObject = False) -> None:
    """Print a subscriptions file; `apply` takes it back without a change.

    It contains header values and whole URLs. Secrets are in it only with --show-secrets; otherwise `***`
    keeps the stored one.  Exit 1 if a secret that was asked for cannot be decrypted.
    """
    with errors_in_one_line():
        found = subscriptions().exported(tenant, secrets=show_secrets)
    document = found.document
    typer.echo(orjson.dumps(document).decode() if as_json else as_yaml(document).rstrip("\n"))
    if found.faults:
        fail("\n".join(found.faults))


def _fail_of(rows: Sequence[Mapping[str, object]]) -> None:
    """Print a line for each subscription with a fault, and exit with 1 if there is one."""
    faults = [f"{row['tenant']}/{row['name']}: {row['fault']}" for row in rows if row["fault"] is not None]
    if faults:
        fail("\n".join(faults))
