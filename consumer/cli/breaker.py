"""``leveret breaker reset``: send to an endpoint again without waiting for its cooldown.

Data flow: subscription -> store (its id) -> leveret.control -> every worker.
"""

from __future__ import annotations

import asyncio

import typer

from consumer.cli.link import find_broker
from consumer.cli.options import examples
from consumer.cli.output import AsJson, errors_in_one_line, print_json
from consumer.cli.subscriptions.shared import Name, Tenant, Which, address, described, identity, read_entries
from consumer.core.subscription_steps import find
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
        settings = load_settings()
        entry = find(read_entries(settings), wanted)
        names = Names(settings.topology.prefix)
        message = {"kind": "reset", "subscription": entry.id}
        asyncio.run(tell_workers(find_broker(settings).options, names, message))
    if as_json:
        print_json({"change": "reset", **identity(entry)})
    else:
        typer.echo(f"reset {described(entry)}")
