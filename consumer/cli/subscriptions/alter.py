"""``leveret subscriptions add | remove | enable | disable``: change single subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.cli.shared.consent import agreed
from consumer.cli.shared.options import examples, takes
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json
from consumer.cli.shared.secrets import STDIN, read_line, read_secret
from consumer.cli.subscriptions.shared import Name, Policy, Tenant, Which, address, described, report
from consumer.cli.subscriptions.source import subscriptions
from consumer.cli.values.subscriptions import PLAN, How
from consumer.core.changes.report import with_counts

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

    def values(self) -> dict[str, object]:
        """Return the entry in the form of a subscriptions file.

        Raises:
            ConfigError, OSError: the URL or the secret cannot be read.
        """
        url = read_line(STDIN, "URL").strip() if self.url == STDIN else self.url
        given: dict[str, object] = {
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
        source = subscriptions()
        added = source.add(options.values())
    for row in added.changes:
        if options.as_json:
            shown: dict[str, object] = {"change": "added", **row.identity}
            print_json(shown if row.secret is None else shown | {"secret": row.secret})
            continue
        typer.echo(f"added {described(row.identity)} ({row.identity['id']})")
        if row.secret is not None:
            typer.echo(f"secret, shown this once: {row.secret}")


def remove_(
    which: Several = None, tenant: Tenant = None, name: Name = None, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Remove subscriptions with their secrets. Waiting deliveries are archived and counted `cancelled`.

    The command counts waiting and parked deliveries first. If there are any, or the broker cannot be asked,
    it asks before it removes anything; without a terminal it then needs --yes.
    """
    wanted = [address(text, tenant, name) for text in which or (None,)]
    with errors_in_one_line():
        source = subscriptions()
        planned = source.remove(wanted, PLAN)
        if not agreed(planned, yes=yes):
            typer.echo("nothing was removed", err=True)
            raise typer.Exit(1)
        how = How(may_remove=planned.removed_ids, by="leveret subscriptions remove")
        removed = source.remove(wanted, how)
    report(with_counts(removed, planned), "removed", as_json=as_json)


def enable_(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Send again to a subscription that was disabled by hand, by its file, after a 410 or a long failure."""
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        done = subscriptions().enable(wanted)
    report(done, "enabled", as_json=as_json)


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
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        done = subscriptions().disable(wanted, reason)
    report(done, "disabled", as_json=as_json)
