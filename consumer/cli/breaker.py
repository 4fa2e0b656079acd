"""``leveret breaker list | reset | open``: list endpoints on hold, and set a breaker in every worker.

Data flow: store -> table; subscription -> its id -> leveret.control -> every worker; and the state of
the breaker -> store, for workers that start later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import AsJson, errors_in_one_line, print_json, print_rows, warn
from consumer.cli.shared.release import release
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address, described, read_entries
from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.steps import Address, find, full_name
from consumer.core.changes.view import identity
from consumer.core.endpoint.health import Health
from consumer.core.errors import StoreUnavailable
from consumer.core.message.parked import rfc3339
from consumer.core.message.records import EndpointState
from consumer.core.message.waiting import Wanted
from consumer.core.store.audit import Change
from consumer.core.subscription.subscription import endpoint_id
from consumer.edges.operate.control import send_to_workers
from consumer.edges.operate.link import find_broker
from consumer.edges.store import opened_store
from consumer.edges.store.rows.audit import cli_author
from consumer.settings import Settings, load_settings
from topology.names import Names

app = typer.Typer(help="Breakers of endpoints.", no_args_is_help=True)

COLUMNS = ("tenant", "name", "state", "since", "held_until", "failing_since", "reason")


@app.command("list", epilog=examples("leveret breaker list", "leveret breaker list --json"))
def list_(as_json: AsJson = False) -> None:
    """Print endpoints whose breaker is not closed, that asked for a rest, or that failed for ten minutes.

    The rows are the workers' latest records.
    """
    with errors_in_one_line():
        rows = asyncio.run(_rows(load_settings()))
    print_rows(COLUMNS, rows, as_json=as_json, empty="every breaker is closed")


@app.command(epilog=examples("leveret breaker reset acme/shop"))
def reset(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Close the breaker of an endpoint in every worker, end its rest, and send its waiting deliveries.

    They are sent at once, as by `leveret waiting kick`, within the endpoint's slots and rate. To send nothing
    instead, see pause.
    """
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        entry, heard = _set_state("reset", "closed", wanted)
        released = asyncio.run(release(load_settings(), Wanted(subscription=entry.id)))
    _report("reset", entry, heard=heard, as_json=as_json, released=released)


@app.command("open", epilog=examples("leveret breaker open acme/shop"))
def open_(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Open the breaker of an endpoint in every worker: nothing is sent, not even a probe.

    It stays open, over restarts too, until `leveret breaker reset`. New deliveries wait meanwhile.
    """
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        entry, heard = _set_state("open", "forced", wanted)
    _report("opened", entry, heard=heard, as_json=as_json)


def _set_state(kind: str, state: str, wanted: Address) -> tuple[StoredEntry, bool]:
    """Send a change to all workers and store it for later ones; return the entry, and if a worker listens."""
    settings = load_settings()
    entry = find(read_entries(settings), wanted)
    message = {"kind": kind, "subscription": entry.id}
    names = Names(settings.topology.prefix)
    heard = asyncio.run(send_to_workers(find_broker(settings).options, names, message))
    asyncio.run(_keep(settings, entry, state))
    return entry, heard


async def _rows(settings: Settings) -> Sequence[Mapping[str, object]]:
    async with opened_store(settings) as store:
        entries, states = await store.entries(), await store.endpoint_states()
        holds, healths = await store.records.holds(), await store.records.healths()
    now, by_endpoint = time.time(), {state.endpoint: state for state in states}
    rows = []
    for entry in (entry for entry in entries if entry.enabled):
        known = identity(entry)
        endpoint = str(known["endpoint"])
        state, until = by_endpoint.get(endpoint), holds.get(endpoint, 0.0)
        failing = healths.get(endpoint, Health(None)).failing
        is_open = state is not None and state.state not in ("closed", "disabled")
        if is_open or until > now or failing is not None:
            shown = {
                "state": "closed" if state is None else state.state,
                "since": None if state is None else rfc3339(state.since),
                "held_until": rfc3339(until) if until > now else None,
                "failing_since": None if failing is None else rfc3339(failing.first_at),
                "reason": None if state is None else state.reason or None,
            }
            rows.append({**known, **shown})
    return rows


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


def _report(
    change: str, entry: StoredEntry, *, heard: bool, as_json: bool, released: int | None = None
) -> None:
    sent = {} if released is None else {"released": released}
    if as_json:
        print_json({"change": change, **identity(entry), "heard": heard, **sent})
    else:
        typer.echo(f"{change} {described(entry)}")
        if released:
            typer.echo(f"waiting deliveries that are sent now: {released}")
    if not heard:
        warn("no worker listens now; the change holds from the next start on")
