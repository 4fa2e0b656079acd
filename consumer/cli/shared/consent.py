"""Ask before a command removes subscriptions that still have waiting or parked deliveries.

Data flow: subscriptions to remove -> edges.operate.removal counts their deliveries over AMQP -> one warning
for each -> ``--yes``, or a question on the terminal; otherwise nothing changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import typer

from consumer.cli.shared.output import demand_terminal, warn
from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.owed import Owed, removal_lines, removal_total
from consumer.edges.operate.removal import owed_by as count_owed_by
from consumer.edges.store import opened_store
from consumer.settings import Settings


def owed_by(settings: Settings, removed: Sequence[StoredEntry]) -> Owed:
    """Count the deliveries that would be lost with *removed*; without the broker they stay uncounted."""

    async def count() -> Owed:
        async with opened_store(settings) as store:
            return await count_owed_by(settings, store, removed)

    return asyncio.run(count()) if removed else Owed()


def agreed(owed: Owed, merged: Merge, *, yes: bool) -> bool:
    """Warn of each loss and ask. It asks nothing if nothing would be lost, or with *yes*.

    Raises:
        BadParameter: stdin is not a terminal, so that nobody can answer.
    """
    if not owed:
        return True
    for line in removal_lines(owed, merged.removed, merged.added):
        warn(line)
    if yes:
        return True
    demand_terminal(f"{removal_total(owed)} would be lost; ")
    count = len(merged.removed)
    return typer.confirm(f"Remove {count} {'subscription' if count == 1 else 'subscriptions'}?", err=True)
