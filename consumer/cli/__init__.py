"""``leveret``: argv -> one call -> exit code 0 (done), 1 (failed) or 2 (wrong usage)."""

from __future__ import annotations

import sys
from importlib import import_module

import typer

from consumer.cli.broker import app as broker
from consumer.cli.run import run
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
for name in ("config", "subscriptions", "parked"):
    try:
        app.add_typer(import_module(f"consumer.cli.{name}").app, name=name)
    except ModuleNotFoundError:
        pass


def main() -> None:
    """Run the command line."""
    app(sys.argv[1:])
