"""``leveret parked``: list, count, show, replay, export and purge given-up deliveries.

Data flow: leveret.parked -> entries -> Filter -> table, JSON, counts; replay -> leveret.replay or
leveret.events, confirmed; purge -> archive, then out of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping

import typer

from consumer.cli.shared.lazy_commands import LazyCommand, LazyGroup

COMMANDS: Mapping[str, LazyCommand] = {
    "list": LazyCommand(
        "list",
        "Print the parked entries, oldest first, or count them, from the store's index: no entry is touched.",
    ),
    "stats": LazyCommand(
        "list", "Print how many entries are parked, since when, and for whom, from the store's index."
    ),
    "reindex": LazyCommand(
        "reindex",
        "Make the index of parked entries anew, in one pass over the queue; all entries stay parked.",
    ),
    "show": LazyCommand("show", "Print one entry with its payload and every attempt."),
    "export": LazyCommand(
        "show", "Print entries as JSON lines, bodies included (base64), and leave them where they are."
    ),
    "replay": LazyCommand(
        "replay",
        "Send entries again with their original data; each leaves the parked queue after the broker's "
        "confirm.",
    ),
    "purge": LazyCommand(
        "purge",
        "Move old entries out of the queue. Each is written to LEVERET_HOME/archive first, body included.",
    ),
}


class ParkedCommands(LazyGroup):
    """The commands of ``leveret parked``."""

    package = "consumer.cli.parked"
    known = COMMANDS


app = typer.Typer(help="Deliveries and events that were given up.", no_args_is_help=True, cls=ParkedCommands)
