"""``leveret subscriptions``: list and change who gets which events.

Data flow: command -> pure step of the core -> store, in one transaction. A daemon loads it within a second.
"""

from __future__ import annotations

import typer

from consumer.cli.subscriptions import alter, apply, secrets, show, trial

app = typer.Typer(help="Who gets which events.", no_args_is_help=True)

for part in (apply, show, alter, secrets, trial):
    part.register(app)
