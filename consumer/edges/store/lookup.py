"""Read what a person asks about an event: subscriptions without their secrets, and parked entries.

It needs no key and changes nothing, not even the schema.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.message.records import ParkedRow
from consumer.core.subscription.brief import SubscriptionBrief
from consumer.core.subscription.pauses import paused
from consumer.edges.store.batches import chunks
from consumer.edges.store.database import Database
from consumer.edges.store.rows.endpoints import EndpointRow, patterns_of, read_endpoints
from consumer.edges.store.rows.parked import ParkedReasons, read_reasons, read_rows
from consumer.edges.store.rows.pauses import read_pauses
from consumer.edges.store.tables import PARKED_INDEX, SUBSCRIPTIONS, TOMBSTONES

_COLUMNS = SUBSCRIPTIONS.c
_BRIEF = select(
    _COLUMNS.id, _COLUMNS.tenant, _COLUMNS.name, _COLUMNS.enabled, _COLUMNS.disabled_reason, _COLUMNS.entry
)

_TENANTS = select(_COLUMNS.tenant, func.count()).group_by(_COLUMNS.tenant).order_by(_COLUMNS.tenant)


class StoreLookup:
    """Answers questions about single tenants and events."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        """Bind to a database; nothing is opened yet.

        Args:
            database: Where the rows are.
            now: Returns Unix seconds.
        """
        self._database = database
        self._now = now

    @property
    def where(self) -> str:
        """Place of the store, without a password."""
        return self._database.where

    async def subscriptions(self, tenant: str) -> Sequence[SubscriptionBrief] | None:
        """Return the subscriptions of a tenant by name; None before a store exists.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            if connection is None:
                return None
            return await _briefs(connection, _BRIEF.where(_COLUMNS.tenant == tenant).order_by(_COLUMNS.name))

    async def tenants(self) -> Mapping[str, int]:
        """Return the number of subscriptions of each tenant, by name.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            rows = () if connection is None else (await connection.execute(_TENANTS)).all()
        return {row[0]: row[1] for row in rows}

    async def known_ids(self, tenant: str | None = None) -> frozenset[str]:
        """Return the ids of all subscriptions, or of those of a tenant.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        query = select(_COLUMNS.id)
        query = query if tenant is None else query.where(_COLUMNS.tenant == tenant)
        async with self._database.reading() as connection:
            return frozenset() if connection is None else frozenset((await connection.scalars(query)).all())

    async def owners(self) -> Mapping[str, str]:
        """Return the tenant of each subscription, by its id.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            rows = (
                () if connection is None else await connection.execute(select(_COLUMNS.id, _COLUMNS.tenant))
            )
            return {row[0]: row[1] for row in rows}

    async def subscription(self, subscription_id: str) -> SubscriptionBrief | None:
        """Return the subscription with this id; None if there is none.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            if connection is None:
                return None
            found = await _briefs(connection, _BRIEF.where(_COLUMNS.id == subscription_id))
        return found[0] if found else None

    async def endpoints(self, tenant: str | None = None, of: str | None = None) -> Sequence[EndpointRow]:
        """Return subscriptions with the states of their endpoints, by tenant and name; none without a store.

        Args:
            tenant: Only those of this tenant.
            of: Only the one with this id.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            return await read_endpoints(connection, self._now(), tenant, of)

    async def parked_reasons(self, since: float, tenant: str | None = None) -> ParkedReasons:
        """Return the number of parked entries, and why those since a time (Unix seconds) were parked.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            return await read_reasons(connection, self._now(), since, tenant)

    async def parked(self, event_id: str) -> Sequence[ParkedRow]:
        """Return the index of the parked entries of an event, the oldest first; the queue is not touched.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        columns = PARKED_INDEX.c
        wanted = columns.event_id == event_id, columns.expires_at > self._now()
        async with self._database.reading() as connection:
            return (await read_rows(connection, *wanted))[::-1]

    async def parked_of(self, event_ids: Collection[str]) -> Sequence[ParkedRow]:
        """Return the index of the parked entries of some events, the oldest first.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        columns, found = PARKED_INDEX.c, list[ParkedRow]()
        async with self._database.reading() as connection:
            for some in chunks(list(event_ids)):
                wanted = columns.event_id.in_(some), columns.expires_at > self._now()
                found += (await read_rows(connection, *wanted))[::-1]
        return found

    async def subscriptions_by_id(self, ids: Collection[str]) -> Mapping[str, SubscriptionBrief]:
        """Return those subscriptions of *ids* that exist, by id.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        found: dict[str, SubscriptionBrief] = {}
        async with self._database.reading() as connection:
            if connection is None:
                return found
            for some in chunks(list(ids)):
                briefs = await _briefs(connection, _BRIEF.where(_COLUMNS.id.in_(some)))
                found |= {brief.id: brief for brief in briefs}
        return found

    async def ids_of(self, tenant: str) -> Sequence[str]:
        """Return the ids of the subscriptions of a tenant, also of those that were deleted a short time ago.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        deleted = select(TOMBSTONES.c.id).where(TOMBSTONES.c.tenant == tenant)
        async with self._database.reading() as connection:
            if connection is None:
                return ()
            known = (await connection.scalars(select(_COLUMNS.id).where(_COLUMNS.tenant == tenant))).all()
            return sorted({*known, *(await connection.scalars(deleted)).all()})

    async def parked_entry(self, entry_id: str) -> ParkedRow | None:
        """Return the line of one parked entry; None if the index has none.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            rows = await read_rows(connection, PARKED_INDEX.c.id == entry_id)
        return rows[0] if rows else None

    async def close(self) -> None:
        """Close every connection."""
        await self._database.close()


async def _briefs(connection: AsyncConnection, query: Select[Any]) -> Sequence[SubscriptionBrief]:
    pauses = {pause.key for pause in await read_pauses(connection)}
    return [_brief(row, pauses) for row in (await connection.execute(query)).all()]


def _brief(row: Row[Any], pauses: set[tuple[str, str]]) -> SubscriptionBrief:
    return SubscriptionBrief(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        events=patterns_of(row.entry),
        enabled=row.enabled,
        disabled_reason=row.disabled_reason or "",
        paused=paused(pauses, row.tenant, row.id),
    )
