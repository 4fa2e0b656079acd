"""``leveret serve``: run the HTTP API and the pages."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from consumer.cli.shared.options import examples
from consumer.cli.shared.output import errors_in_one_line
from consumer.core.errors import ConfigError
from consumer.settings import load_settings


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command(
        "serve", epilog=examples("leveret serve", "LEVERET_API__LISTEN=127.0.0.1:9000 leveret serve")
    )(serve)


Socket = Annotated[
    int | None,
    typer.Option("--socket", hidden=True, help="A listening socket: a worker starts this process with it."),
]

Api = Annotated[
    str | None,
    typer.Option("--api", hidden=True, help="The section [api] of that worker, as JSON."),
]


def serve(handle: Socket = None, api: Api = None) -> None:
    """Serve the HTTP API and the pages at `[api] listen` until SIGTERM; a request needs a token."""
    from consumer.web import serve as process  # noqa: PLC0415 (FastAPI costs 0.3 s, which no other command needs)

    with errors_in_one_line():
        if (handle is None) != (api is None):
            raise ConfigError("--socket and --api belong together: a worker passes both")
        options = None if api is None else {"api": json.loads(api)}
        code = process.run(load_settings(options=options), handle)
    raise typer.Exit(code)
