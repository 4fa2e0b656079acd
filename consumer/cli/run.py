"""``leveret run``: run the daemon."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import errors_in_one_line
from consumer.daemon import life as daemon
from consumer.settings import load_settings


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command("run", epilog=examples("leveret run", "leveret run --no-declare"))(run)


def run(
    declare: Annotated[
        bool, typer.Option(help="Create missing queues on the broker, which needs the configure right.")
    ] = True,
) -> None:
    """Deliver events until SIGTERM; then drain and exit 0."""
    with errors_in_one_line():
        code = daemon.run(load_settings(), daemon.Run(declare=declare))
    raise typer.Exit(code)
