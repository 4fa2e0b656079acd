"""Read the index of parked entries, also one that an earlier release made and that has fewer columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, func, inspect, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.message.records import ParkedCounts, ParkedRow
from consumer.edges.store.tables import PARKED_INDEX

_ALL: Final[ColumnElement[Any]] = literal_column("*")
"""The columns that the table has, known without a question to the database's catalog."""
_FIELDS: Final = frozenset(field.name for field in fields(ParkedRow))


async def read_rows(
    connection: AsyncConnection | None, *where: ColumnElement[bool], limit: int | None = None
) -> Sequence[ParkedRow]:
    """Return the rows that meet all conditions, newest first."""
    if connection is None:
        return ()
    by_time = PARKED_INDEX.c.parked_at.desc(), PARKED_INDEX.c.id.desc()
    query = select(_ALL).select_from(PARKED_INDEX).where(*where).order_by(*by_time).limit(limit)
    return tuple(map(_row, (await connection.execute(query)).all()))


@dataclass(frozen=True, slots=True)
class ParkedReasons:
    """The size of the index, and the reasons of its newest entries."""

    count: int
    recent: Mapping[str, int]  #: entries by reason, the most frequent first


async def read_reasons(
    connection: AsyncConnection | None, now: float, since: float, tenant: str | None
) -> ParkedReasons:
    """Return the number of entries, and why those since a time were parked; of a tenant if it is given.

    Args:
        connection: A read transaction; None before a store exists.
        now: Unix seconds; entries that have expired do not count.
        since: Unix seconds.
        tenant: None: of all tenants.
    """
    if connection is None:
        return ParkedReasons(0, {})
    columns = PARKED_INDEX.c
    wanted = [columns.expires_at > now, *([] if tenant is None else [columns.tenant == tenant])]
    total = await connection.scalar(select(func.count()).select_from(PARKED_INDEX).where(*wanted))
    by_reason = select(columns.reason, func.count()).where(*wanted, columns.parked_at >= since)
    rows = (await connection.execute(by_reason.group_by(columns.reason))).all()
    recent = dict(sorted(((row[0], row[1]) for row in rows), key=lambda each: (-each[1], each[0])))
    return ParkedReasons(int(total or 0), recent)


async def read_counts(connection: AsyncConnection | None, now: float) -> ParkedCounts:
    """Return how many entries there are by tenant and by subscription; *now* is in Unix seconds."""
    if connection is None:
        return ParkedCounts()
    columns = PARKED_INDEX.c
    groups = select(columns.tenant, columns.subscription_ids, func.count(), func.min(columns.parked_at))
    query = groups.where(columns.expires_at > now).group_by(columns.tenant, columns.subscription_ids)
    tenants: Counter[str] = Counter()
    subscriptions: Counter[str] = Counter()
    oldest_at, total = None, 0
    for tenant, ids, count, parked_at in (await connection.execute(query)).all():
        total += count
        if tenant is not None:
            tenants[tenant] += count
        for each in ids.split():
            subscriptions[each] += count
        oldest_at = parked_at if oldest_at is None else min(oldest_at, parked_at)
    return ParkedCounts(tenants, subscriptions, total, oldest_at)


async def count_messages(connection: AsyncConnection | None, *where: ColumnElement[bool]) -> int:
    """Return how many messages of the queue the rows represent."""
    if connection is None:
        return 0
    is_there = PARKED_INDEX.c.messages.name in await connection.run_sync(_names)
    each = func.sum(PARKED_INDEX.c.messages) if is_there else func.count()
    return int(await connection.scalar(select(each).select_from(PARKED_INDEX).where(*where)) or 0)


def values(row: ParkedRow) -> dict[str, object]:
    """Return *row* as the table has it."""
    return {**asdict(row), "subscription_ids": " ".join(row.subscription_ids)}


def _names(connection: Connection) -> frozenset[str]:
    return frozenset(column["name"] for column in inspect(connection).get_columns(PARKED_INDEX.name))


def _row(row: Row[Any]) -> ParkedRow:
    known = {name: value for name, value in row._mapping.items() if name in _FIELDS}
    known["subscription_ids"] = tuple(known["subscription_ids"].split())
    return ParkedRow(**known)
