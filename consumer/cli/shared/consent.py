"""Ask before a command removes subscriptions that still have waiting or parked deliveries.

Data flow: plan of a change, with the deliveries that it would destroy -> one warning for each ->
``--yes``, or a question on the terminal; otherwise nothing changes.
"""

from __future__ import annotations

import typer

from consumer.cli.shared.output import demand_terminal, warn
from consumer.core.changes.report import Report


def agreed(planned: Report, *, yes: bool) -> bool:
    """Warn of each loss and ask. It asks nothing if nothing would be lost, or with *yes*.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    for line in planned.losses:
        warn(line)
    if yes or not planned.lost:
        return True
    demand_terminal(f"{planned.lost} would be lost; ")
    count = len(planned.removed_ids)
    return typer.confirm(f"Remove {count} {'subscription' if count == 1 else 'subscriptions'}?", err=True)
