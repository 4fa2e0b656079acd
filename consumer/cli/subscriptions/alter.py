"""``leveret subscriptions add | remove | enable | disable``: change single subscriptions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.cli.shared.consent import agreed, owed_by
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json
from consumer.cli.shared.secrets import STDIN, read_line, read_secret
from consumer.cli.subscriptions.shared import (
    Name,
    Policy,
    Tenant,
    Which,
    address,
    change,
    described,
    report,
)
from consumer.core.changes.file import parse_entry
from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.steps import Note, add, disable, enable, find, remove, require_only
from consumer.core.changes.view import identity
from consumer.core.message.records import short
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.text.rfc3339 import from_datetime
from consumer.edges.process.fresh_secrets import fresh_secret
from consumer.settings import load_settings

Several = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SUBSCRIPTION", help="tenant/name, id, or name alone.", autocompletion=subscription_names
    ),
]
Reason = Annotated[str, typer.Option(help="Reason, as a note for later readers.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask, even if deliveries wait or are parked.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """The command line of ``leveret subscriptions add``."""

    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="Target of the webhooks; - reads it from stdin, as for a token."),
    ]
    event: Annotated[list[str], typer.Option(help="Event pattern such as order.*; may be repeated.")]
    tenant: Annotated[str, typer.Option(help="Tenant that owns it.", autocompletion=tenant_names)] = "default"
    name: Annotated[
        str | None, typer.Option(help="Name, unique per tenant; absent: derived from the host.")
    ] = None
    policy: Policy = None
    timeout_s: Annotated[float | None, typer.Option(help="Total deadline of one attempt, in seconds.")] = None
    concurrency: Annotated[int | None, typer.Option(help="Requests in flight to it, per worker.")] = None
    secret_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with its secret; - is stdin. Absent: one is generated."),
    ] = None
    disabled: Annotated[bool, typer.Option("--disabled", help="Send nothing yet.")] = False
    as_json: AsJson = False

    def values(self) -> dict[Hashable, object]:
        """Return the entry in the form of a subscriptions file.

        Raises:
            ConfigError, OSError: the URL or the secret cannot be read.
        """
        url = read_line(STDIN, "URL").strip() if self.url == STDIN else self.url
        given: dict[Hashable, object] = {
            "name": self.name,
            "retry": None if self.policy is None else {"policy": self.policy},
            "timeout_s": self.timeout_s,
            "concurrency": self.concurrency,
            "secrets": None if self.secret_file is None else [read_secret(self.secret_file)],
            "enabled": False if self.disabled else None,
        }
        present = {key: value for key, value in given.items() if value is not None}
        return {"tenant": self.tenant, "url": url, "events": self.event, **present}


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command(
        "add",
        epilog=examples(
            "leveret subscriptions add https://a.example/orders --tenant acme --name shop --event 'order.*'",
            "leveret subscriptions add - --event '#' --policy standard-webhooks < url.txt",
        ),
    )(takes(Add)(add_))
    app.command("remove", epilog=examples("leveret subscriptions remove acme/shop acme/till"))(remove_)
    app.command("enable", epilog=examples("leveret subscriptions enable acme/shop"))(enable_)
    app.command(
        "disable",
        epilog=examples("leveret subscriptions disable acme/shop --reason 'they migrate until Monday'"),
    )(disable_)


def add_(options: Add) -> None:
    """Add one subscription and show its generated secret, this once. For headers and the like: `apply`."""
    if STDIN == options.url == options.secret_file:
        raise typer.BadParameter("only one of URL and --secret-file can be read from stdin")
    with errors_in_one_line():
        settings = load_settings()
        entry: SubscriptionEntry = parse_entry(options.values(), settings.subscription_rules())
        merged = change(settings, lambda kept: add(kept, entry, fresh_secret))
    generated = {one.id for one in merged.generated}
    for one in merged.added:
        secret = one.secrets[0].get_secret_value() if one.id in generated else None
        if options.as_json:
            row: dict[str, object] = {"change": "added", **identity(one)}
            print_json(row if secret is None else row | {"secret": secret})
            continue
        typer.echo(f"added {described(one)} ({one.id})")
        if secret is not None:
            typer.echo(f"secret, shown this once: {secret}")


def remove_(
    which: Several = None, tenant: Tenant = None, name: Name = None, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Remove subscriptions with their secrets. Waiting deliveries are archived and counted `cancelled`.

    The command counts waiting and parked deliveries first. If there are any, or the broker cannot be asked,
    it asks before it removes anything; without a terminal it then needs --yes.
    """
    wanted = [address(text, tenant, name) for text in which or (None,)]

    def step(kept: Sequence[StoredEntry]) -> Merge:
        return remove(kept, {find(kept, one).id for one in wanted})

    with errors_in_one_line():
        settings = load_settings()
        meant = change(settings, step, write=False)
        owed = owed_by(settings, meant.removed)
        if not agreed(owed, meant, yes=yes):
            typer.echo("nothing was removed", err=True)
            raise typer.Exit(1)
        by = "leveret subscriptions remove"
        merged = change(settings, lambda kept: require_only(step(kept), meant.removed), by=by)
    report(merged, "removed", as_json=as_json, owed=owed)


def enable_(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Send again to a subscription that was disabled by hand, by its file, after a 410 or a long failure."""
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        merged = change(load_settings(), lambda kept: enable(kept, find(kept, wanted).id))
    report(merged, "enabled", as_json=as_json)


def disable_(
    which: Which = None,
    tenant: Tenant = None,
    name: Name = None,
    reason: Reason = "by hand",
    as_json: AsJson = False,
) -> None:
    """Send nothing to a subscription until it is enabled again; waiting deliveries are parked as `disabled`.

    Applying its file does not enable it.
    """
    wanted, note = (
        address(which, tenant, name),
        Note(short(reason), from_datetime(datetime.now(UTC).replace(microsecond=0)) or ""),
    )
    with errors_in_one_line():
        merged = change(load_settings(), lambda kept: disable(kept, find(kept, wanted).id, note))
    report(merged, "disabled", as_json=as_json)
