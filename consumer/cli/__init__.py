"""``leveret``: argv -> one call -> exit code 0 (done), 1 (failed) or 2 (wrong usage)."""

from __future__ import annotations

import logging
import sys
from typing import NoReturn

import typer

from consumer.cli import listen, publish
from consumer.cli.broker import app as broker
from consumer.cli.config import app as config
from consumer.cli.parked import app as parked
from consumer.cli.run import run
from consumer.cli.store import app as store
from consumer.cli.subscriptions import app as subscriptions
from consumer.cli.topology import app as topology
from consumer.core.plain import printable

app = typer.Typer(
    name="leveret",
    help="Deliver RabbitMQ events as signed Standard Webhooks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(run)
publish.register(app)
listen.register(app)
app.add_typer(broker, name="broker")
app.add_typer(topology, name="topology")
app.add_typer(config, name="config")
app.add_typer(subscriptions, name="subscriptions")
app.add_typer(parked, name="parked")
app.add_typer(store, name="store")


def main() -> None:
    """Run the command line; wrong usage is one line on stderr and exit code 2."""
    _silence_the_amqp_library()
    command = typer.main.get_command(app)
    try:
        code = command.main(sys.argv[1:], prog_name="leveret", standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # of the parser; typer carries a copy of its own of click
            raise
        _usage(error.format_message(), getattr(error, "ctx", None))
    except (KeyboardInterrupt, EOFError):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _silence_the_amqp_library() -> None:
    """Say a fault once, in our own line; the daemon sets logging up by itself."""
    for name in ("aiormq", "aio_pika"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _usage(text: str, context: object) -> NoReturn:
    said = printable(" ".join(text.split())).removesuffix(".")
    if said:  # without a command the help is printed already
        path = getattr(context, "command_path", "leveret")
        typer.echo(f"leveret: {said}; see `{path} --help`", err=True)
    sys.exit(2)
