"""Know whether this command works over an API, and refuse what needs store and broker themselves."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from consumer.cli.remote.client import Client

_CHOSEN: ContextVar[Client | None] = ContextVar("server", default=None)


def choose(client: Client | None) -> None:
    """Make the commands of this process work over *client*; None: with store and broker."""
    _CHOSEN.set(client)


def chosen() -> Client | None:
    """Return the client of the API, or None if the command works with store and broker."""
    return _CHOSEN.get()


def refuse_remote(what: str) -> None:
    """Refuse *what*, such as ``leveret run``, with --server.

    Raises:
        BadParameter: the command works over an API.
    """
    if chosen() is not None:
        raise typer.BadParameter(
            f"{what} needs the store and the broker themselves, so it cannot work over --server; "
            "run it where Leveret runs, without --server and LEVERET_SERVER"
        )
