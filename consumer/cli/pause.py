"""``leveret pause`` and ``leveret resume``: suspend sending to a tenant, to a subscription or to all.

Data flow: scope -> store (one transaction), or API -> the daemon loads it within a second.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Protocol

import typer

from consumer.cli.remote.choice import chosen
from consumer.cli.remote.endpoints import RemotePauses
from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_rows, warn
from consumer.cli.shared.release import release
from consumer.cli.values.holds import PausesAfter
from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.subscription.pauses import Pause, Scope
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.pauses import (
    Chosen,
    PausesNow,
    change_pause,
    deliveries_of,
    find_pause,
    inform_workers,
    list_pauses,
)
from consumer.edges.store import opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import Settings, load_settings

COLUMNS = ("scope", "name", "subscription", "since")

Everything = Annotated[bool, typer.Option("--all", help="Every subscription.")]
Tenant = Annotated[
    str | None, typer.Option(help="Every subscription of this tenant.", autocompletion=tenant_names)
]
One = Annotated[
    str | None,
    typer.Option(
        "--subscription", help="This subscription: tenant/name, or its id.", autocompletion=subscription_names
    ),
]


class Pauses(Protocol):
    """The pauses: in the store, or behind an API."""

    def listed(self) -> PausesAfter:
        """Return all pauses."""

    def add(self, scope: Scope, name: str) -> PausesAfter:
        """Pause a scope.

        Raises:
            LeveretError: there is no such tenant or subscription.
        """

    def lift(self, scope: Scope, name: str) -> PausesAfter:
        """Lift the pause of a scope, and send its waiting deliveries.

        Raises:
            LeveretError: there is no such tenant or subscription.
        """


class StoredPauses:
    """The pauses in the store."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings."""
        self._settings = settings

    def listed(self) -> PausesAfter:
        """See :class:`Pauses`."""

        async def read() -> PausesNow:
            async with opened_store(self._settings) as store:
                return await list_pauses(store)

        return PausesAfter(rows=asyncio.run(read()).rows, changed=False)

    def add(self, scope: Scope, name: str) -> PausesAfter:
        """See :class:`Pauses`."""
        now = asyncio.run(self._change(Chosen(scope, name), lift=False))
        return PausesAfter(rows=now.rows, changed=now.changed is not None)

    def lift(self, scope: Scope, name: str) -> PausesAfter:
        """See :class:`Pauses`."""
        now = asyncio.run(self._change(Chosen(scope, name), lift=True))
        if now.changed is None:
            return PausesAfter(rows=now.rows, changed=False)
        released = asyncio.run(_release(self._settings, now.changed))
        return PausesAfter(rows=now.rows, changed=True, released=released)

    async def _change(self, chosen: Chosen, *, lift: bool) -> PausesNow:
        async with opened_store(self._settings) as store:
            pause = await find_pause(store, chosen, lift=lift, now=time.time())
            return await change_pause(store, pause, lift=lift, who=cli_author())


def _pauses() -> Pauses:
    client = chosen()
    return StoredPauses(load_settings()) if client is None else RemotePauses(client)


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command("pause", epilog=examples("leveret pause --tenant acme", "leveret pause --json"))(pause)
    app.command("resume", epilog=examples("leveret resume --tenant acme", "leveret resume --all"))(resume)


def pause(
    tenant: Tenant = None, subscription: One = None, everything: Everything = False, as_json: AsJson = False
) -> None:
    """Send nothing until resume; new deliveries wait on the ladder. Without a scope: list the pauses."""
    scope = _scope(tenant, subscription, everything=everything)
    with errors_in_one_line():
        done = _pauses().listed() if scope is None else _pauses().add(*scope)
    print_rows(COLUMNS, done.rows, as_json=as_json, empty="nothing is paused")
    if scope is not None and not done.changed and not as_json:
        typer.echo("it was paused already")


def resume(
    tenant: Tenant = None, subscription: One = None, everything: Everything = False, as_json: AsJson = False
) -> None:
    """Lift the pause of this scope, and list the pauses that remain.

    Waiting deliveries are sent at once, as by `leveret waiting kick`; without a broker they are sent within a
    minute or so.
    """
    scope = _scope(tenant, subscription, everything=everything)
    if scope is None:
        raise typer.BadParameter("give a scope: --all, --tenant or --subscription")
    with errors_in_one_line():
        done = _pauses().lift(*scope)
    for line in done.warnings:
        warn(line)
    print_rows(COLUMNS, done.rows, as_json=as_json, empty="nothing is paused")
    if done.released and not as_json:
        typer.echo(f"waiting deliveries that are sent now: {done.released}", err=True)
    if not done.changed:
        fail("this scope has no pause of its own; `leveret pause` lists all pauses, each is lifted alone")


def _scope(tenant: str | None, subscription: str | None, *, everything: bool) -> tuple[Scope, str] | None:
    """Return the scope that the options name; None if they name none.

    Raises:
        BadParameter: they name more than one.
    """
    named = [
        (Scope.ALL, "") if everything else None,
        None if tenant is None else (Scope.TENANT, tenant),
        None if subscription is None else (Scope.SUBSCRIPTION, subscription),
    ]
    given = [scope for scope in named if scope is not None]
    if len(given) > 1:
        raise typer.BadParameter("give only one of --all, --tenant and --subscription")
    return given[0] if given else None


async def _release(settings: Settings, lifted: Pause) -> int:
    """Send the deliveries that waited for the end of a pause; return their number.

    The workers learn of the change first. A delivery that another pause still holds is postponed again.
    """
    try:
        await inform_workers(find_broker(settings).options, settings.topology_spec())
    except (BrokerUnavailable, ConfigError) as error:
        warn(f"waiting deliveries are looked at again within a minute or so: {error}")
        return 0
    return await release(settings, deliveries_of(lifted))
