"""``leveret waiting``: list deliveries on the ladder, send them at once, or cancel them.

Data flow: rungs -> delivery messages -> Wanted -> table or JSON; kick -> leveret.due, confirmed; cancel ->
archive, then out of the rung.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated

import typer
from aio_pika.abc import AbstractConnection

from consumer.cli.shared.audit import write_line
from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.cli.shared.interrupt import run_to_the_end
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, demand_terminal, errors_in_one_line, fail, print_rows, warn
from consumer.cli.shared.resolve import is_id, subscription_id
from consumer.cli.shared.resolve import tenant as demand_tenant
from consumer.cli.subscriptions.shared import read_entries
from consumer.core.errors import BrokerUnavailable, StoreUnavailable
from consumer.core.message.waiting import Wanted, as_dict
from consumer.core.operate.audited import waiting_change
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.control import send_to_workers
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.waiting import Unread, Waiting, WaitQueues, browse, cancel, kick
from consumer.edges.process.system import FileArchive, SystemClock
from consumer.edges.store import opened_store
from consumer.settings import Settings, load_settings
from topology.names import Names

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

_Pass = Callable[[AbstractConnection, WaitQueues, Wanted], AsyncGenerator[Waiting | Unread, None]]


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
    wanted = _named(tenant, subscription, event)
    rows, broken = _run(browse, wanted, sys.maxsize if limit is None else limit)
    if broken is None or rows:
        print_rows(COLUMNS, rows, as_json=as_json, empty="nothing waits")
    if broken is not None:
        fail(broken)


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
    wanted = _chosen(tenant, subscription, event, everything=everything)
    _cancel_reservations(wanted)
    rows, broken = _run(kick, wanted, sys.maxsize)
    _write_line("kicked", wanted, len(rows))
    _print(rows, broken, as_json=as_json, empty="nothing was kicked")


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
    wanted = _chosen(tenant, subscription, event, everything=False)
    with errors_in_one_line():
        archive = FileArchive(load_settings().home / "archive", SystemClock(), "cancelled")
    if not yes and not _agreed(wanted):
        typer.echo("nothing was cancelled", err=True)
        raise typer.Exit(1)
    rows, broken = _run(partial(cancel, archive=archive), wanted, sys.maxsize)
    _write_line("cancelled", wanted, len(rows))
    _cancel_reservations(wanted)
    _print(rows, broken, as_json=as_json, empty="nothing was cancelled")


def _write_line(done: str, wanted: Wanted, deliveries: int) -> None:
    """Write the line of the audit log, unless nothing was changed."""

    async def run() -> None:
        async with opened_store(load_settings()) as store:
            await write_line(store, waiting_change(done, wanted, deliveries))

    if deliveries:
        with errors_in_one_line():
            asyncio.run(run())


def _chosen(tenant: str | None, subscription: str | None, event: str | None, *, everything: bool) -> Wanted:
    """Return the filter that the options make.

    Raises:
        BadParameter: there is neither a filter nor --all.
    """
    wanted = _named(tenant, subscription, event)
    if wanted == Wanted() and not everything:
        raise typer.BadParameter("choose deliveries: --tenant, --subscription or --event")
    return wanted


def _named(tenant: str | None, subscription: str | None, event: str | None) -> Wanted:
    """Return the filter with the subscription's id. An unknown id passes: its deliveries may wait."""
    if subscription is not None and not is_id(subscription):
        with errors_in_one_line():
            subscription = subscription_id(read_entries(load_settings()), subscription)
    return Wanted(tenant=tenant, subscription=subscription, event=event)


def _demand_known(wanted: Wanted) -> None:
    """End with an error if nothing was found because a name is unknown."""
    with errors_in_one_line(), suppress(StoreUnavailable):
        stored = read_entries(load_settings()) if wanted.tenant or wanted.subscription else ()
        if wanted.tenant is not None:
            demand_tenant(stored, wanted.tenant)
        if wanted.subscription is not None:
            subscription_id(stored, wanted.subscription)


def _cancel_reservations(wanted: Wanted) -> None:
    """Make the workers cancel the reservations of the *wanted* deliveries.

    Otherwise an endpoint with a rate would keep the kicked or cancelled deliveries' places and send nothing
    else meanwhile. One event has only one reservation, so it changes nothing for the others.
    """
    if wanted.event is not None:
        return
    message = {"kind": "free", "tenant": wanted.tenant, "subscription": wanted.subscription}
    with errors_in_one_line():
        settings = load_settings()
        link, names = find_broker(settings), Names(settings.topology.prefix)
        try:
            asyncio.run(send_to_workers(link.options, names, message))
        except BrokerUnavailable as error:
            warn(
                f"the workers could not be notified, and may send new deliveries later than possible: {error}"
            )


def _agreed(wanted: Wanted) -> bool:
    """Count the deliveries that would be cancelled, and ask.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    demand_terminal()
    rows, broken = _run(browse, wanted, sys.maxsize)
    if broken is not None:
        fail(broken)
    return bool(rows) and typer.confirm(f"Cancel {len(rows)} waiting deliveries?", err=True)


def _print(rows: Sequence[Mapping[str, object]], broken: str | None, *, as_json: bool, empty: str) -> None:
    """Print the finished part, then the error if there is one."""
    print_rows(BRIEF, rows, as_json=as_json, empty=empty)
    if broken is not None:
        fail(broken)


def _run(step: _Pass, wanted: Wanted, limit: int) -> tuple[list[Mapping[str, object]], str | None]:
    """Return the rows that *step* yields, even if the broker or the disk fails midway, and the error text."""
    rows: dict[object, Mapping[str, object]] = {}  # by id: a delivery that moves meanwhile may be seen twice

    async def run(settings: Settings) -> None:
        connection = await connect(find_broker(settings).options, "waiting")
        spec = settings.topology_spec()
        try:
            async with aclosing(step(connection, WaitQueues(spec.names, spec.ladder), wanted)) as done:
                async for one in done:
                    if isinstance(one, Unread):
                        warn(f"{one.queue}: {one.count} messages were not looked at: {one.why}")
                        continue
                    shown = [as_dict(one.message, target) for target in one.message.targets]
                    rows.update((row["delivery_id"], row) for row in shown)
                    if len(rows) >= limit:
                        return
        finally:
            await close_quietly(connection)

    with errors_in_one_line():
        settings = load_settings()
        try:
            run_to_the_end(run(settings))
        except KeyboardInterrupt:
            return list(rows.values())[:limit], "interrupted; unlisted deliveries stay waiting"
        except BrokerUnavailable as error:
            return list(rows.values())[:limit], str(error)
        except OSError as error:
            where = settings.home / "archive"
            return list(rows.values()), f"{where}: {error.strerror or error}; unarchived deliveries wait on"
    if not rows:
        _demand_known(wanted)
    return list(rows.values())[:limit], None
