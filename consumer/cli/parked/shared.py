"""Read the parked queue, for the commands that take its messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from math import inf
from typing import NoReturn

import typer

from consumer.cli.shared.interrupt import run_to_the_end
from consumer.cli.shared.output import warn
from consumer.cli.shared.progress import Progress
from consumer.core.message.parked import ParkedEntry
from consumer.core.message.parked_filter import Filter
from consumer.core.text.printable import printable
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.parked.lock import Turn
from consumer.edges.operate.parked.queue import Unreadable, browse
from consumer.settings import Settings
from topology.names import Names


def turn_of(command: str, *, wait: bool) -> Turn:
    """Return how ``leveret parked`` *command* asks for the entries."""

    def told(line: str) -> None:
        typer.echo(f"leveret: {printable(line)}", err=True)

    return Turn(
        command=f"leveret parked {command}",
        wait_s=inf if wait else 0.0,
        on_wait=told,
        on_read=Progress().read,
    )


def for_each_entry(
    settings: Settings, turn: Turn, chosen: Filter, take: Callable[[ParkedEntry], bool]
) -> None:
    """Pass every chosen entry to *take*, oldest first, until it returns false.

    One warning on stderr counts the unreadable messages.

    Raises:
        QueueInUse: another command has the entries in hand.
        BrokerUnavailable: the broker is away or the queue does not exist.
    """
    unreadable: list[Unreadable] = []

    async def run() -> None:
        connection = await connect(find_broker(settings).options, "parked")
        try:
            names = Names(settings.topology.prefix)
            async with aclosing(browse(connection, names, turn, unreadable)) as entries:
                async for entry in entries:
                    if chosen(entry) and not take(entry):
                        return
        finally:
            await close_quietly(connection)

    run_to_the_end(run())
    if unreadable:
        remedy = "read them with a newer release or on the management page"
        warn(f"{len(unreadable)} parked messages cannot be read ({unreadable[0].why}) and stay; {remedy}")


def interrupted(left: str) -> NoReturn:
    """Exit after an interruption, once the finished part is shown; *left* describes the other part."""
    warn(left)
    raise typer.Exit(130)
