"""Read and write pauses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.store.audit import Change
from consumer.core.subscription.pauses import Pause, Scope
from consumer.edges.store.tables import PAUSES

_ALL: Final = select(PAUSES).order_by(PAUSES.c.since, PAUSES.c.scope, PAUSES.c.name)


async def read_pauses(connection: AsyncConnection | None) -> Sequence[Pause]:
    """Return every pause, the oldest first."""
    if connection is None:
        return ()
    rows = (await connection.execute(_ALL)).all()
    return [Pause(scope=Scope(row.scope), name=row.name, since=row.since) for row in rows]


async def write_pause(connection: AsyncConnection, pause: Pause) -> bool:
    """Store a pause; return False if it exists already, and then keep its time."""
    if pause.key in {known.key for known in await read_pauses(connection)}:
        return False
    row = {"scope": pause.scope.value, "name": pause.name, "since": pause.since}
    await connection.execute(insert(PAUSES), [row])
    return True


async def lift_pause(connection: AsyncConnection, pause: Pause) -> bool:
    """Delete a pause; return False if it does not exist."""
    columns = PAUSES.c
    gone = delete(PAUSES).where(columns.scope == pause.scope.value, columns.name == pause.name)
    return bool((await connection.execute(gone)).rowcount)


def pause_change(pause: Pause, *, lift: bool) -> Change:
    """Return the change for the audit log."""
    return Change(
        action="pause.lifted" if lift else "pause.set",
        target=pause.name or pause.scope.value,
        tenant=pause.name if pause.scope is Scope.TENANT else None,
        before={"scope": pause.scope.value} if lift else {},
        after={} if lift else {"scope": pause.scope.value},
    )
