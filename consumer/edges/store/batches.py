"""Run statements over many ids, in batches that a database accepts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Table, delete
from sqlalchemy.ext.asyncio import AsyncConnection

IDS_AT_ONCE = 500  #: ids in one statement


async def delete_ids(connection: AsyncConnection, table: Table, column: str, ids: Sequence[str]) -> None:
    """Delete the rows of *table* whose *column* is one of *ids*."""
    for some in chunks(ids):
        await connection.execute(delete(table).where(table.c[column].in_(some)))


def chunks(ids: Sequence[str]) -> Sequence[Sequence[str]]:
    """Cut *ids* into batches that fit into one statement."""
    return [ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE)]
