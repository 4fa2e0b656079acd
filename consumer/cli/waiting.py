"""``leveret waiting``: list deliveries on the ladder, send them at once, or cancel them.

Data flow: rungs, or API -> table or JSON; kick -> leveret.due, confirmed; cancel -> archive, then out of the
rung.
"""

from __future__ import annotations

from typing import Annotated, Protocol

import typer

from consumer.cli.remote.choice import chosen
from consumer.cli.remote.waiting import RemoteWaiting
from consumer.cli.rungs import Rungs
from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, demand_terminal, errors_in_one_line, fail, print_rows, warn
from consumer.cli.values.holds import Passed
from consumer.core.message.waiting import Wanted
from consumer.settings import load_settings

app = typer.Typer(help="Deliveries that wait for their next attempt.", no_args_is_help=True)

COLUMNS = ("event_id", "not_before", "tenant", "type", "subscription_id", "failed_attempts")
BRIEF = ("event_id", "tenant", "type", "subscription_id")

Tenant = Annotated[str | None, typer.Option(help="Only of this tenant.", autocompletion=tenant_names)]
SubscriptionId = Annotated[
    str | None,
    typer.Option(
        "--subscription",
        help="Only of this subscription: tenant/name or its id.",
        autocompletion=subscription_names,
    ),
]
EventId = Annotated[str | None, typer.Option("--event", help="Only of the event with this id.")]
Everything = Annotated[bool, typer.Option("--all", help="All waiting deliveries.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most this many.")]


class WaitingDeliveries(Protocol):
    """Deliveries that wait: on the rungs of a broker, or behind an API."""

    def named(self, wanted: Wanted) -> Wanted:
        """Return *wanted* with the id of its subscription."""

    def listed(self, wanted: Wanted, limit: int | None) -> Passed:
        """Return the deliveries, the longest waits first."""

    def kick(self, wanted: Wanted) -> Passed:
        """Send the deliveries at once."""

    def cancel(self, wanted: Wanted) -> Passed:
        """Archive the deliveries and cancel them."""

    def demand_known(self, wanted: Wanted) -> None:
        """Refuse an unknown name, after nothing was found.

        Raises:
            LeveretError: there is no such tenant or subscription.
        """


def _waiting() -> WaitingDeliveries:
    client = chosen()
    return Rungs(load_settings()) if client is None else RemoteWaiting(client)


@app.command(
    "list", epilog=examples("leveret waiting list --tenant acme", "leveret waiting list --limit 20 --json")
)
def list_(
    tenant: Tenant = None,
    subscription: SubscriptionId = None,
    event: EventId = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Print the deliveries on the ladder, the longest waits first, without those in a worker's hands."""
    with errors_in_one_line():
        source = _waiting()
        wanted = source.named(Wanted(tenant=tenant, subscription=subscription, event=event))
        done = source.listed(wanted, limit)
        _demand_known(source, wanted, done)
    _warn(done)
    if done.broken is None or done.rows:
        print_rows(COLUMNS, done.rows, as_json=as_json, empty="nothing waits")
    if done.broken is not None:
        fail(done.broken)


@app.command(
    "kick",
    epilog=examples("leveret waiting kick --subscription sub_0123456789abcdef", "leveret waiting kick --all"),
)
def kick_(
    tenant: Tenant = None,
    subscription: SubscriptionId = None,
    event: EventId = None,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """Send waiting deliveries at once. An open breaker, a pause and a Retry-After still hold them."""
    given = _chosen(tenant, subscription, event, everything=everything)
    with errors_in_one_line():
        source = _waiting()
        wanted = source.named(given)
        done = source.kick(wanted)
        _demand_known(source, wanted, done)
    _print(done, as_json=as_json, empty="nothing was kicked")


@app.command(
    "cancel",
    epilog=examples("leveret waiting cancel --event ord-17", "leveret waiting cancel --tenant acme --yes"),
)
def cancel_(
    tenant: Tenant = None,
    subscription: SubscriptionId = None,
    event: EventId = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Cancel waiting deliveries. Each is written to LEVERET_HOME/archive first, body included.

    The command asks before it begins; without a terminal it needs --yes.
    """
    given = _chosen(tenant, subscription, event, everything=False)
    with errors_in_one_line():
        source = _waiting()
        wanted = source.named(given)
        if not yes and not _agreed(source, wanted):
            typer.echo("nothing was cancelled", err=True)
            raise typer.Exit(1)
        done = source.cancel(wanted)
        _demand_known(source, wanted, done)
    _print(done, as_json=as_json, empty="nothing was cancelled")


def _chosen(tenant: str | None, subscription: str | None, event: str | None, *, everything: bool) -> Wanted:
    """Return the filter that the options make.

    Raises:
        BadParameter: there is neither a filter nor --all.
    """
    wanted = Wanted(tenant=tenant, subscription=subscription, event=event)
    if wanted == Wanted() and not everything:
        raise typer.BadParameter("choose deliveries: --tenant, --subscription or --event")
    return wanted


def _demand_known(source: WaitingDeliveries, wanted: Wanted, done: Passed) -> None:
    """Refuse an unknown name if nothing was found.

    Raises:
        LeveretError: there is no such tenant or subscription.
    """
    if not done.rows and done.broken is None:
        source.demand_known(wanted)


def _agreed(source: WaitingDeliveries, wanted: Wanted) -> bool:
    """Count the deliveries that would be cancelled, and ask.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    demand_terminal()
    found = source.listed(wanted, None)
    _demand_known(source, wanted, found)
    _warn(found)
    if found.broken is not None:
        fail(found.broken)
    return bool(found.rows) and typer.confirm(f"Cancel {len(found.rows)} waiting deliveries?", err=True)


def _warn(done: Passed) -> None:
    for line in done.warnings:
        warn(line)


def _print(done: Passed, *, as_json: bool, empty: str) -> None:
    """Print the finished part, then the error if there is one."""
    _warn(done)
    print_rows(BRIEF, done.rows, as_json=as_json, empty=empty)
    if done.broken is not None:
        fail(done.broken)
