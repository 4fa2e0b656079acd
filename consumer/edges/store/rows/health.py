"""Read and write since when endpoints have failed.

A write merges with the stored row: a worker that writes late, after an outage of the store, or knows less,
neither ends nor restarts the time that another worker recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.endpoint.health import Failing, Health, merged
from consumer.edges.store.batches import delete_ids
from consumer.edges.store.tables import HEALTH


async def read_healths(connection: AsyncConnection | None) -> Mapping[str, Health]:
    """Return all rows, by endpoint."""
    if connection is None:
        return {}
    rows = (await connection.execute(select(HEALTH))).all()
    return {
        row.endpoint: Health(
            None if row.failing_since is None else Failing(row.failing_since, row.counts), row.taken_at
        )
        for row in rows
    }


async def write_healths(
    connection: AsyncConnection, healths: Mapping[str, Health], anew: Collection[str] = ()
) -> None:
    """Merge *healths*, by endpoint, with the stored rows; those of *anew* replace them."""
    if not healths:
        return
    there = await read_healths(connection)
    unknown = Health(None)
    known = {endpoint: unknown if endpoint in anew else there.get(endpoint, unknown) for endpoint in healths}
    rows = [_row(endpoint, merged(known[endpoint], new)) for endpoint, new in healths.items()]
    await delete_ids(connection, HEALTH, "endpoint", list(healths))
    await connection.execute(insert(HEALTH), rows)


def _row(endpoint: str, health: Health) -> dict[str, object]:
    failing = health.failing
    return {
        "endpoint": endpoint,
        "failing_since": None if failing is None else failing.first_at,
        "counts": failing is not None and failing.counts,
        "taken_at": health.taken_at,
    }
