"""``leveret breaker reset | open``: say to every worker what an endpoint's breaker is to be.

Data flow: subscription -> store (its id) -> leveret.control -> every worker.
"""

from __future__ import annotations

import asyncio

import typer

from consumer.cli.link import find_broker
from consumer.cli.options import examples
from consumer.cli.output import AsJson, errors_in_one_line, print_json
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address, described, identity, read_entries
from consumer.core.subscription_set import StoredEntry
from consumer.core.subscription_steps import Address, find
from consumer.edges.control import tell_workers
from consumer.settings import load_settings
from topology.names import Names

app = typer.Typer(help="Breakers of endpoints.", no_args_is_help=True)


@app.command(epilog=examples("leveret breaker reset acme/shop"))
def reset(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Close the breaker of an endpoint in every worker, and end its pauses and its slow start.

    What was put off comes back at the times that it was given. To send nothing instead, see pause.
    """
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        entry = _tell("reset", wanted)
    _say("reset", entry, as_json=as_json)


@app.command("open", epilog=examples("leveret breaker open acme/shop"))
def open_(which: Which = None, tenant: Tenant = None, name: Name = None, as_json: AsJson = False) -> None:
    """Open the breaker of an endpoint in every worker that runs: nothing is sent, and nothing probes.

    It stays so, over restarts too, until `leveret breaker reset`. What comes meanwhile waits.
    """
    wanted = address(which, tenant, name)
    with errors_in_one_line():
        entry = _tell("open", wanted)
    _say("opened", entry, as_json=as_json)


def _tell(kind: str, wanted: Address) -> StoredEntry:
    """Tell all workers; return which subscription was meant."""
    settings = load_settings()
    entry = find(read_entries(settings), wanted)
    message = {"kind": kind, "subscription": entry.id}
    names = Names(settings.topology.prefix)
    asyncio.run(tell_workers(find_broker(settings).options, names, message))
    return entry


def _say(change: str, entry: StoredEntry, *, as_json: bool) -> None:
    if as_json:
        print_json({"change": change, **identity(entry)})
    else:
        typer.echo(f"{change} {described(entry)}")
