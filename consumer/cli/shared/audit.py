"""Write the line of a command into the audit log, after the deed."""

from __future__ import annotations

from consumer.cli.shared.output import warn
from consumer.core.errors import LeveretError
from consumer.core.store.audit import Change
from consumer.edges.store import SqlStore
from consumer.edges.store.rows.audit import cli_author


async def write_line(store: SqlStore, change: Change | None) -> None:
    """Write *change*; the command has done its work, so a store that is away only causes a warning.

    Args:
        store: The store of the audit log.
        change: The line; None writes nothing.
    """
    if change is None:
        return
    try:
        if not (await store.read_lineage()).generation.store:
            return  # a command that works on the broker alone makes no store
        await store.records.audit.add(cli_author(), change)
    except LeveretError as error:
        warn(f"this is not in the audit log: {error}")
