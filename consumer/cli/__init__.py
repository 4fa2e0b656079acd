"""``leveret``: argv -> one call -> exit code 0 (done), 1 (failed) or 2 (wrong usage)."""

from __future__ import annotations

import errno
import logging
import os
import sys
from dataclasses import dataclass
from typing import Annotated, NoReturn

import typer

from consumer.cli.remote.choice import choose, refuse_remote
from consumer.cli.remote.options import (
    AllowHttp,
    CaFile,
    Server,
    ServerOptions,
    TimeoutS,
    TokenFile,
    checked_url,
)
from consumer.cli.shared.lazy_commands import COMMANDS, LazyCommands
from consumer.cli.shared.options import takes
from consumer.cli.shared.output import errors_in_one_line
from consumer.core.text.printable import printable
from consumer.edges.process.startup import forbid_core_dumps, open_standard_streams

app = typer.Typer(
    name="leveret",
    help="Deliver RabbitMQ events as signed Standard Webhooks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    cls=LazyCommands,
)


def _print_version(wanted: bool | None) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 (it costs 15 ms, and no command needs it)

        typer.echo(f"leveret {version('leveret')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The options of ``leveret`` itself."""

    context: typer.Context
    server: Server = None
    token_file: TokenFile = None
    ca_file: CaFile = None
    timeout_s: TimeoutS = 60.0
    allow_http: AllowHttp = False
    version: Version = False

    def options(self) -> ServerOptions | None:
        """Return the server that was chosen, if any.

        Raises:
            BadParameter: it has no token file.
            ConfigError: its URL is not usable.
        """
        if not self.server:
            return None
        if not self.token_file:
            raise typer.BadParameter("--server needs --token-file, or LEVERET_TOKEN_FILE")
        url = checked_url(self.server, allow_http=self.allow_http)
        return ServerOptions(
            url=url, token_file=self.token_file, ca_file=self.ca_file, timeout_s=self.timeout_s
        )


def _top(top: Top) -> None:
    """Deliver RabbitMQ events as signed Standard Webhooks."""
    choose(None)
    with errors_in_one_line():
        options = top.options()
    if options is None:
        return
    from consumer.cli.remote.client import Client  # noqa: PLC0415 (few calls need an HTTP client)

    client = Client(options, transport=top.context.obj)
    choose(client)
    top.context.call_on_close(client.close)
    name = top.context.invoked_subcommand or ""
    if name in COMMANDS and not COMMANDS[name].works_remotely:
        refuse_remote(f"`leveret {name}`")


app.callback(epilog="Shell completion of commands, subscriptions and policies: leveret --install-completion")(
    takes(Top)(_top)
)


def main() -> None:
    """Run the command line; wrong usage prints one line on stderr and exits with code 2."""
    open_standard_streams()
    forbid_core_dumps()
    _silence_the_amqp_library()
    command = typer.main.get_command(app)
    try:
        code = command.main(sys.argv[1:], prog_name="leveret", standalone_mode=False)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _end_without_room()
    except Exception as error:
        if not hasattr(error, "format_message"):  # an error of the parser; typer has its own copy of click
            raise
        _usage(error.format_message(), getattr(error, "ctx", None))
    except (KeyboardInterrupt, EOFError):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _silence_the_amqp_library() -> None:
    """Keep library logs quiet, as each fault is printed once by us; the daemon configures its own logging."""
    for name in ("aiormq", "aio_pika"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _end_without_room() -> NoReturn:
    """Report once that stdout has no space left; the rest of its buffer would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    typer.echo("leveret: stdout: no space left on device; free some, or write the output elsewhere", err=True)
    sys.exit(1)


def _usage(text: str, context: object) -> NoReturn:
    message = printable(" ".join(text.split())).removesuffix(".")
    if message:  # without a command the help is already printed
        path = getattr(context, "command_path", "leveret")
        typer.echo(f"leveret: {message}; see `{path} --help`", err=True)
    sys.exit(2)
