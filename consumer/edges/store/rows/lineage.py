"""Read and write the store's generations, and the tombstones of deleted subscriptions.

Each change writes the next generation into ``leveret_revision``, whose row each writer locks, and adds it to
the earlier ones. So a copy that was changed independently differs from one that is merely newer.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.store.lineage import Generation, Lineage
from consumer.core.store.tombstone import Tombstone
from consumer.edges.store.batches import delete_ids
from consumer.edges.store.database import has_table
from consumer.edges.store.rows.audit import system_user
from consumer.edges.store.tables import GENERATIONS, REVISION, SUBSCRIPTIONS, TOMBSTONES

KEPT = 1_000
"""Generations that are kept. The broker's record can be older only if no daemon ran during as many changes;
then only the identity is compared."""

_MARK_BYTES = 8


async def read_generation(connection: AsyncConnection | None) -> Generation:
    """Return the store's identity and newest generation; an empty identity without a store."""
    if connection is None:
        return Generation("", 0, "")
    row = (await connection.execute(select(REVISION.c.store, REVISION.c.number, REVISION.c.mark))).one()
    return Generation(*row)


async def read_lineage(connection: AsyncConnection | None) -> Lineage:
    """Return the part of the store that is compared with the broker's record."""
    generation = await read_generation(connection)
    if connection is None:
        return Lineage(generation=generation)
    count = await connection.scalar(select(func.count()).select_from(SUBSCRIPTIONS)) or 0
    marks = {generation.number: generation.mark}
    if await has_table(connection, GENERATIONS):  # an older release has no such table
        marks |= dict((await connection.execute(select(GENERATIONS))).tuples().all())
    return Lineage(generation=generation, marks=marks, subscriptions=count)


async def advance(connection: AsyncConnection, above: int = 0) -> Generation:
    """Begin the next generation, with a number above *above* too; delete old ones."""
    before = await read_generation(connection)
    after = Generation(before.store, max(before.number, above) + 1, secrets.token_hex(_MARK_BYTES))
    await connection.execute(update(REVISION).values(number=after.number, mark=after.mark))
    await connection.execute(delete(GENERATIONS).where(GENERATIONS.c.number <= after.number - KEPT))
    await connection.execute(insert(GENERATIONS), {"number": after.number, "mark": after.mark})
    return after


async def write_tombstones(
    connection: AsyncConnection, deleted: Sequence[Tombstone], made: Sequence[str], now: float
) -> None:
    """Write tombstones of *deleted*; delete those of *made* (ids of new subscriptions) and expired ones."""
    await connection.execute(delete(TOMBSTONES).where(TOMBSTONES.c.keep_until <= now))
    await delete_ids(connection, TOMBSTONES, "id", [*made, *(one.id for one in deleted)])
    if deleted:
        await connection.execute(insert(TOMBSTONES), [one._asdict() for one in deleted])


async def read_tombstone(connection: AsyncConnection | None, subscription_id: str) -> Tombstone | None:
    """Return the tombstone of a subscription; None if it was not deleted."""
    if connection is None or not await has_table(connection, GENERATIONS):
        return None
    query = select(*TOMBSTONES.c).where(TOMBSTONES.c.id == subscription_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Tombstone(*row)


def deleted_by(command: str | None) -> str:
    """Return the user of this process, with the deleting command if there is one."""
    user = system_user()
    return user if command is None else f"{user} ({command})"
