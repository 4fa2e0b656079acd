"""Statements over many ids, in pieces that a database takes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Table, delete
from sqlalchemy.ext.asyncio import AsyncConnection

IDS_AT_ONCE = 500  #: in one statement


async def delete_ids(connection: AsyncConnection, table: Table, column: str, ids: Sequence[str]) -> None:
    """Delete the rows of *table* whose *column* is one of *ids*."""
    for some in chunks(ids):
        await connection.execute(delete(table).where(table.c[column].in_(some)))


def chunks(ids: Sequence[str]) -> Sequence[Sequence[str]]:
    """Cut *ids* into pieces that fit into one statement."""
    return [ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE)]
