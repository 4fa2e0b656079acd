"""``leveret``: argv -> one call -> exit code 0 (done), 1 (failed) or 2 (wrong usage)."""

from __future__ import annotations

import sys

import typer

from consumer.cli.broker import app as broker
from consumer.cli.config import app as config
from consumer.cli.parked import app as parked
from consumer.cli.run import run
from consumer.cli.subscriptions import app as subscriptions
from consumer.cli.topology import app as topology

app = typer.Typer(
    name="leveret",
    help="Deliver RabbitMQ events as signed Standard Webhooks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.add_typer(broker, name="broker")
app.add_typer(topology, name="topology")
app.add_typer(config, name="config")
app.add_typer(subscriptions, name="subscriptions")
app.add_typer(parked, name="parked")


def main() -> None:
    """Run the command line."""
    app(sys.argv[1:])
