"""``leveret run``: the daemon."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer import app as daemon
from consumer.core.errors import LeveretError
from consumer.settings import load_settings


def run(
    declare: Annotated[
        bool, typer.Option(help="Create what is missing on the broker; without it read and write rights do.")
    ] = True,
) -> None:
    """Deliver events until SIGTERM; then drain and exit 0."""
    try:
        code = daemon.run(load_settings(), daemon.Run(declare=declare))
    except (LeveretError, OSError) as error:
        typer.echo(f"leveret: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(code)
