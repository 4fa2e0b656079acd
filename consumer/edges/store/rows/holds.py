"""Read and write until when endpoints asked for no requests: a ``Retry-After`` outlives its worker."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.edges.store.batches import delete_ids
from consumer.edges.store.database import has_table
from consumer.edges.store.tables import HOLDS


async def read_holds(connection: AsyncConnection | None) -> Mapping[str, float]:
    """Return all rows, by endpoint, in Unix seconds; none if an older release made the store."""
    if connection is None or not await has_table(connection, HOLDS):
        return {}
    return await _read(connection)


async def _read(connection: AsyncConnection) -> Mapping[str, float]:
    rows = (await connection.execute(select(HOLDS))).all()
    return {row.endpoint: row.until for row in rows}


async def write_holds(
    connection: AsyncConnection, holds: Mapping[str, float], now: float, anew: Collection[str] = ()
) -> None:
    """Write *holds*, by endpoint. 0 ends one, a later stored end stays unless in *anew*, past ones go."""
    if not holds:
        return
    there = {endpoint: until for endpoint, until in (await _read(connection)).items() if endpoint not in anew}
    ends = {endpoint: max(until, there.get(endpoint, 0.0)) for endpoint, until in holds.items() if until}
    await connection.execute(delete(HOLDS).where(HOLDS.c.until <= now))
    await delete_ids(connection, HOLDS, "endpoint", list(holds))
    if ends:
        await connection.execute(
            insert(HOLDS), [{"endpoint": endpoint, "until": until} for endpoint, until in ends.items()]
        )
