"""Read pages and counts of the index of parked entries; the database filters, sorts and counts.

Data flow: Filter -> conditions -> rows of one page, a count, or groups. No JSON is read, and no message is
touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, and_, false, func, literal, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.message.parked_filter import Filter, GroupBy, ParkedGroup, fits
from consumer.core.message.records import ParkedRow
from consumer.edges.store.database import Database
from consumer.edges.store.rows.parked import read_rows
from consumer.edges.store.tables import PARKED_INDEX

_C = PARKED_INDEX.c
_COLUMNS = {
    GroupBy.TENANT: _C.tenant,
    GroupBy.REASON: _C.reason,
    GroupBy.STATUS: _C.code,
    GroupBy.TYPE: _C.type,
    GroupBy.SUBSCRIPTION: _C.subscription_ids,
}


class Place(NamedTuple):
    """The place of a row in the order of time."""

    parked_at: float  #: Unix seconds
    id: str


class ParkedSpan(NamedTuple):
    """The number of entries, and when the first and the last of them were parked (Unix seconds)."""

    entries: int
    oldest: float | None
    newest: float | None


class ParkedQueries:
    """Answers for one filter. Rows that have expired never count."""

    def __init__(
        self, database: Database, now: Callable[[], float] = time.time, *, is_kept: bool = True
    ) -> None:
        """Bind to a database.

        Args:
            database: Where the rows are.
            now: Returns Unix seconds.
            is_kept: False if the settings keep no index, so that its counts mean nothing.
        """
        self._database = database
        self._now = now
        self.is_kept = is_kept

    async def page(self, chosen: Filter, limit: int, after: Place | None = None) -> Sequence[ParkedRow]:
        """Return at most *limit* rows, newest first; only those that are older than *after*.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            if connection is None:
                return ()
            wanted = await self._conditions(connection, chosen)
            if after is not None:
                wanted.append(
                    tuple_(_C.parked_at, _C.id) < tuple_(literal(after.parked_at), literal(after.id))
                )
            return await read_rows(connection, *wanted, limit=limit)

    async def one(self, entry_id: str) -> ParkedRow | None:
        """Return the row of one entry; None if there is none.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        found = await self.page(Filter(ids=frozenset({entry_id})), 1)
        return found[0] if found else None

    async def span(self, chosen: Filter) -> ParkedSpan:
        """Return the number of rows, and their times.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            if connection is None:
                return ParkedSpan(0, None, None)
            query = select(func.count(), func.min(_C.parked_at), func.max(_C.parked_at))
            wanted = await self._conditions(connection, chosen)
            row = (await connection.execute(query.select_from(PARKED_INDEX).where(*wanted))).one()
        return ParkedSpan(*row)

    async def groups(self, chosen: Filter, keys: Sequence[GroupBy]) -> Sequence[ParkedGroup]:
        """Count the rows by *keys*, the largest group first.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        columns = [_COLUMNS[key] for key in keys]
        query = select(*columns, func.count(), func.min(_C.parked_at), func.max(_C.parked_at))
        async with self._database.reading() as connection:
            if connection is None:
                return ()
            wanted = await self._conditions(connection, chosen)
            rows = (await connection.execute(query.where(*wanted).group_by(*columns))).all()
        found = [_group(keys, row) for row in rows]
        return sorted(found, key=lambda group: (-group.count, str(group.values)))

    async def _conditions(self, connection: AsyncConnection, chosen: Filter) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = [_C.expires_at > self._now()]
        if chosen.ids is not None:
            found.append(_C.id.in_(chosen.ids))
        if chosen.tenant is not None:
            found.append(_C.tenant == chosen.tenant)
        if chosen.reason is not None:
            found.append(_C.reason == chosen.reason)
        if chosen.subscription is not None:
            among = literal(" ").concat(_C.subscription_ids).concat(" ")
            found.append(among.contains(f" {chosen.subscription} ", autoescape=True))
        if chosen.since is not None:
            found.append(_C.parked_at >= chosen.since)
        if chosen.until is not None:
            found.append(_C.parked_at < chosen.until)
        if chosen.type is not None:
            found.append(await _of_types(connection, chosen.type, and_(*found)))
        return found


async def _of_types(
    connection: AsyncConnection, pattern: str, where: ColumnElement[bool]
) -> ColumnElement[bool]:
    """Return the condition that the type fits an AMQP topic pattern, which SQL cannot express."""
    types = (await connection.scalars(select(_C.type).where(where).distinct())).all()
    fitting = [kind for kind in types if fits(pattern, kind or "")]
    if not fitting:
        return false()
    named = [kind for kind in fitting if kind is not None]
    return or_(_C.type.in_(named), _C.type.is_(None)) if None in fitting else _C.type.in_(named)


def _group(keys: Sequence[GroupBy], row: Row[Any]) -> ParkedGroup:
    *values, count, oldest, newest = row
    shown = {key.value: value or None for key, value in zip(keys, values, strict=True)}
    return ParkedGroup(values=shown, count=count, oldest=oldest, newest=newest)
