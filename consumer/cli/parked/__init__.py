"""``leveret parked``: list, count, show, replay, export and purge given-up deliveries.

Data flow: leveret.parked -> entries -> Filter -> table, JSON, counts; replay -> leveret.replay or
leveret.events, confirmed; purge -> archive, then out of the queue.
"""

from __future__ import annotations

import typer

from consumer.cli.parked import purge, replay, show

app = typer.Typer(help="Deliveries and events that were given up.", no_args_is_help=True)

for part in (show, replay, purge):
    part.register(app)
