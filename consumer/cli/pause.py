"""``leveret pause`` and ``leveret resume``: suspend sending to a tenant, to a subscription or to all.

Data flow: scope -> store (one transaction) -> the daemon loads it within a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from consumer.cli.shared.complete import subscription_names, tenant_names
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, fail, print_rows, warn
from consumer.cli.shared.release import release
from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.steps import full_name
from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.message.parked import rfc3339
from consumer.core.message.waiting import Wanted
from consumer.core.subscription.pauses import Pause, Scope
from consumer.edges.operate.control import send_to_workers
from consumer.edges.operate.link import find_broker
from consumer.edges.store import opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import load_settings
from topology.names import Names

KNOWN_S = 1.0  #: time within which workers load the store after a ``reload`` message
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


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command("pause", epilog=examples("leveret pause --tenant acme", "leveret pause --json"))(pause)
    app.command("resume", epilog=examples("leveret resume --tenant acme", "leveret resume --all"))(resume)


def pause(
    tenant: Tenant = None, subscription: One = None, everything: Everything = False, as_json: AsJson = False
) -> None:
    """Send nothing until resume; new deliveries wait on the ladder. Without a scope: list the pauses."""
    chosen = _scope(tenant, subscription, everything=everything)
    with errors_in_one_line():
        rows, changed = asyncio.run(_change(chosen, lift=False))
    print_rows(COLUMNS, rows, as_json=as_json, empty="nothing is paused")
    if chosen is not None and changed is None and not as_json:
        typer.echo("it was paused already")


def resume(
    tenant: Tenant = None, subscription: One = None, everything: Everything = False, as_json: AsJson = False
) -> None:
    """Lift the pause of this scope, and list the pauses that remain.

    Waiting deliveries are sent at once, as by `leveret waiting kick`; without a broker they are sent within a
    minute or so.
    """
    chosen = _scope(tenant, subscription, everything=everything)
    if chosen is None:
        raise typer.BadParameter("give a scope: --all, --tenant or --subscription")
    with errors_in_one_line():
        rows, changed = asyncio.run(_change(chosen, lift=True))
        released = 0 if changed is None else asyncio.run(_release(changed))
    print_rows(COLUMNS, rows, as_json=as_json, empty="nothing is paused")
    if released and not as_json:
        typer.echo(f"waiting deliveries that are sent now: {released}", err=True)
    if changed is None:
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
    chosen = [scope for scope in named if scope is not None]
    if len(chosen) > 1:
        raise typer.BadParameter("give only one of --all, --tenant and --subscription")
    return chosen[0] if chosen else None


async def _change(
    chosen: tuple[Scope, str] | None, *, lift: bool
) -> tuple[list[dict[str, object]], Pause | None]:
    """Add or lift a pause; return all pauses that are left, and the changed one, None if nothing changed.

    Raises:
        ConfigError: there is no such tenant or subscription.
        StoreUnavailable: the store cannot be read or written.
    """
    async with opened_store(load_settings()) as store:
        entries, changed = await store.entries(), None
        if chosen is not None:
            known = await store.pauses()
            meant = _pause(chosen, entries, known if lift else ())
            changed = meant if await store.pause(meant, lift=lift, who=cli_author()) else None
        names = {entry.id: full_name(entry) for entry in entries}
        rows = [_row(one, names.get(one.name)) for one in await store.pauses()]
        return rows, changed


async def _release(lifted: Pause) -> int:
    """Send the deliveries that waited for the end of a pause; return their number.

    The workers learn of the change first. A delivery that another pause still holds is postponed again.
    """
    settings = load_settings()
    try:
        names = Names(settings.topology.prefix)
        if await send_to_workers(find_broker(settings).options, names, {"kind": "reload"}):
            await asyncio.sleep(KNOWN_S)
    except (BrokerUnavailable, ConfigError) as error:
        warn(f"waiting deliveries are looked at again within a minute or so: {error}")
        return 0
    name = lifted.name or None
    wanted = Wanted(
        tenant=name if lifted.scope is Scope.TENANT else None,
        subscription=name if lifted.scope is Scope.SUBSCRIPTION else None,
    )
    return await release(settings, wanted)


def _pause(chosen: tuple[Scope, str], entries: Sequence[StoredEntry], known: Sequence[Pause]) -> Pause:
    scope, name = chosen
    if scope is Scope.SUBSCRIPTION:
        found = [entry.id for entry in entries if name in (entry.id, full_name(entry))]
        name = found[0] if found else name
    pause_ = Pause(scope=scope, name=name, since=time.time())
    there = scope is Scope.ALL or any(name in (entry.id, entry.tenant) for entry in entries)
    if not there and pause_.key not in {one.key for one in known}:
        raise ConfigError(f"there is no {scope.value} {name}; see `leveret subscriptions list`")
    return pause_


def _row(pause_: Pause, subscription: str | None) -> dict[str, object]:
    return {
        "scope": pause_.scope.value,
        "name": pause_.name,
        "subscription": subscription,
        "since": rfc3339(pause_.since),
    }
