"""``leveret breaker list | reset | open``: list endpoints on hold, and set a breaker in every worker.

Data flow: store, or API -> table; subscription -> its id -> leveret.control -> every worker; and the state of
the breaker -> store, for workers that start later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import typer

from consumer.cli.remote.choice import chosen
from consumer.cli.remote.endpoints import RemoteBreakers
from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json, print_rows, warn
from consumer.cli.shared.release import release
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address, described, read_entries
from consumer.cli.values.holds import Set
from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.steps import Address, find, full_name
from consumer.core.changes.view import identity
from consumer.core.errors import StoreUnavailable
from consumer.core.message.records import EndpointState
from consumer.core.message.waiting import Wanted
from consumer.core.store.audit import Change
from consumer.core.subscription.subscription import endpoint_id
from consumer.edges.operate.breakers import breaker_rows
from consumer.edges.operate.control import send_to_workers
from consumer.edges.operate.link import find_broker
from consumer.edges.store import opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import Settings, load_settings
from topology.names import Names

app = typer.Typer(help="Breakers of endpoints.", no_args_is_help=True)

COLUMNS = ("tenant", "name", "state", "since", "held_until", "failing_since", "reason")


class Breakers(Protocol):
    """The breakers of all workers: over the broker, or behind an API."""

    def rows(self) -> Sequence[Mapping[str, object]]:
        """Return a row for each endpoint on hold."""

    def reset(self, wanted: Address) -> Set:
        """Close a breaker in every worker, end a rest, and send the waiting deliveries."""

    def force_open(self, wanted: Address) -> Set:
        """Open a breaker in every worker until a reset."""


class WorkerBreakers:
    """The breakers of the workers at the broker of the settings."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings."""
        self._settings = settings

    def rows(self) -> Sequence[Mapping[str, object]]:
        """See :class:`Breakers`."""

        async def read() -> Sequence[Mapping[str, object]]:
            async with opened_store(self._settings) as store:
                return await breaker_rows(store, time.time())

        return asyncio.run(read())

    def reset(self, wanted: Address) -> Set:
        """See :class:`Breakers`."""
        entry, heard = _set_state(self._settings, "reset", "closed", wanted)
        released = asyncio.run(release(self._settings, Wanted(subscription=entry.id)))
        return Set(identity=identity(entry), heard=heard, released=released)

    def force_open(self, wanted: Address) -> Set:
        """See :class:`Breakers`."""
        entry, heard = _set_state(self._settings, "open", "forced", wanted)
        return Set(identity=identity(entry), heard=heard)


def _breakers() -> Breakers:
    client = chosen()
    return WorkerBreakers(load_settings()) if client is None else RemoteBreakers(client)


@app.command("list", epilog=examples("leveret breaker list", "leveret breaker list --json"))
def list_(as_json: AsJson = False) -> None:
    """Print endpoints whose breaker is not closed, that asked for a rest, or that failed for ten minutes.

    The rows are the workers' latest records.
    """
    with errors_in_one_line():
        rows = _breakers().rows()
    print_rows(COLUMNS, rows, as_json=as_json, empty="every breaker is closed")


@app.command(epilog=examples("leveret breaker reset acme/shop"))
def reset(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Close the breaker of an endpoint in every worker, end its rest, and send its waiting deliveries.

    They are sent at once, as by `leveret waiting kick`, within the endpoint's slots and rate. To send nothing
    instead, see pause.
    """
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        done = _breakers().reset(wanted)
    _report("reset", done, as_json=as_json)


@app.command("open", epilog=examples("leveret breaker open acme/shop"))
def open_(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Open the breaker of an endpoint in every worker: nothing is sent, not even a probe.

    It stays open, over restarts too, until `leveret breaker reset`. New deliveries wait meanwhile.
    """
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        done = _breakers().force_open(wanted)
    _report("opened", done, as_json=as_json)


def _set_state(settings: Settings, kind: str, state: str, wanted: Address) -> tuple[StoredEntry, bool]:
    """Send a change to all workers and store it for later ones; return the entry, and if a worker listens."""
    entry = find(read_entries(settings), wanted)
    message = {"kind": kind, "subscription": entry.id}
    names = Names(settings.topology.prefix)
    heard = asyncio.run(send_to_workers(find_broker(settings).options, names, message))
    asyncio.run(_keep(settings, entry, state))
    return entry, heard


async def _keep(settings: Settings, entry: StoredEntry, state: str) -> None:
    decided = EndpointState(
        endpoint=endpoint_id(entry.tenant, entry.url),
        tenant=entry.tenant,
        subscription_id=entry.id,
        state=state,
        epoch=0,
        since=time.time(),
        reason="by hand",
    )
    try:
        async with opened_store(settings) as store:
            await store.records.decide(decided)
            action = "endpoint.reset" if state == "closed" else "endpoint.opened"
            change = Change(action=action, target=full_name(entry), tenant=entry.tenant)
            await store.records.audit.add(cli_author(), change)
    except StoreUnavailable as error:
        raise StoreUnavailable(f"all workers were notified, but a restart forgets it: {error}") from None


def _report(change: str, done: Set, *, as_json: bool) -> None:
    for line in done.warnings:
        warn(line)
    sent = {} if done.released is None else {"released": done.released}
    if as_json:
        print_json({"change": change, **done.identity, "heard": done.heard, **sent})
    else:
        typer.echo(f"{change} {described(done.identity)}")
        if done.released:
            typer.echo(f"waiting deliveries that are sent now: {done.released}")
    if not done.heard:
        warn("no worker listens now; the change holds from the next start on")
