"""For how long endpoints have taken nothing, as rows.

What is written is joined with what is there: a worker that comes late, after an outage of the store, or that
knows less, ends neither the time of another one nor begins it anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.endpoint.health import Failing, Health, merged
from consumer.edges.store.batches import delete_ids
from consumer.edges.store.tables import HEALTH


async def read_healths(connection: AsyncConnection | None) -> Mapping[str, Health]:
    """Return what is known, by endpoint."""
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
    """Join *healths*, by endpoint, with what is there; those of *anew* replace it."""
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
