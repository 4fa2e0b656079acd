"""Read and write endpoint states and the index of parked entries.

Data flow: Recorder -> :meth:`Records.write`, one batch per transaction -> tables -> command line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.endpoint.breaker import CLOCK_SLACK_S, by_hand
from consumer.core.endpoint.health import Health
from consumer.core.message.records import EndpointState, ParkedCounts, ParkedRow
from consumer.core.subscription.subscription import endpoint_id
from consumer.edges.store.batches import chunks, delete_ids
from consumer.edges.store.database import Database
from consumer.edges.store.rows.access.sessions import SessionRows
from consumer.edges.store.rows.access.tokens import Tokens
from consumer.edges.store.rows.audit import Audit
from consumer.edges.store.rows.health import read_healths, write_healths
from consumer.edges.store.rows.holds import read_holds, write_holds
from consumer.edges.store.rows.jobs import Jobs
from consumer.edges.store.rows.parked import count_messages, read_counts, read_rows, values
from consumer.edges.store.rows.parked_queries import ParkedQueries
from consumer.edges.store.rows.publish_keys import PublishKeys
from consumer.edges.store.tables import ENDPOINT_STATES, HOLDS, PARKED_INDEX, SUBSCRIPTIONS

ROUNDED_S = 0.001  #: resolution of the time of an entry in the queue, in seconds


@dataclass(slots=True)
class Batch:
    """Records that are written in one transaction."""

    states: Mapping[str, EndpointState] = field(default_factory=dict)  #: by endpoint
    healths: Mapping[str, Health] = field(default_factory=dict)  #: by endpoint
    holds: Mapping[str, float] = field(default_factory=dict)  #: by endpoint, Unix seconds; 0 ends one
    healths_anew: Collection[str] = ()  #: endpoints whose stored rows are void, as the clock was set since
    holds_anew: Collection[str] = ()  #: as above
    parked: Mapping[str, ParkedRow] = field(default_factory=dict)  #: by entry id
    gone: Sequence[str] = ()  #: ids of entries that are no longer parked

    def __bool__(self) -> bool:
        """Return whether there is anything to write."""
        return bool(self.states or self.healths or self.holds or self.parked or self.gone)


class Records:
    """The endpoint states and parked entries of one store.

    Attributes:
        jobs: The replay jobs of the store.
        parked: Pages and counts of the index of parked entries.
        tokens: The tokens of the HTTP API.
        audit: The audit log.
        sessions: The browsers that are logged in.
        publish_keys: The idempotency keys of clients that publish over HTTP.
    """

    def __init__(self, database: Database, parked_max: int, now: Callable[[], float] = time.time) -> None:
        """Bind to a database.

        Args:
            database: Database with the rows.
            parked_max: Rows of the index that are kept, the newest ones.
            now: Returns Unix seconds.
        """
        self.jobs = Jobs(database, now)
        self.parked = ParkedQueries(database, now, is_kept=parked_max > 0)
        self.tokens = Tokens(database, now)
        self.audit = Audit(database, now)
        self.sessions = SessionRows(database)
        self.publish_keys = PublishKeys(database, now)
        self._database = database
        self._parked_max = parked_max
        self._now = now

    async def endpoint_states(self) -> Sequence[EndpointState]:
        """Return the latest state of each endpoint that has a subscription, by tenant and endpoint.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            if connection is None:
                return ()
            columns = SUBSCRIPTIONS.c
            owners = (await connection.execute(select(columns.tenant, columns.url))).all()
            rows = (await connection.execute(select(ENDPOINT_STATES))).all()
        known = {endpoint_id(tenant, url) for tenant, url in owners}
        states = [EndpointState(**row._mapping) for row in rows if row.endpoint in known]
        return sorted(states, key=lambda state: (state.tenant, state.endpoint))

    async def healths(self) -> Mapping[str, Health]:
        """Return since when endpoints have failed, by endpoint.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            return await read_healths(connection)

    async def holds(self) -> Mapping[str, float]:
        """Return until when endpoints asked for no requests, by endpoint, in Unix seconds.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            return await read_holds(connection)

    async def decide(self, wanted: EndpointState) -> None:
        """Write the state of a breaker that an operator set, see :func:`by_hand`; ``closed`` ends a hold.

        Args:
            wanted: The new state; its epoch is ignored.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        states, ids = ENDPOINT_STATES, [wanted.endpoint]
        async with self._database.writing() as connection:
            found = select(states.c.state, states.c.epoch).where(states.c.endpoint == wanted.endpoint)
            row = (await connection.execute(found)).first()
            before, epoch = ("", 0) if row is None else row
            epoch = epoch if before == wanted.state else by_hand(epoch)
            await delete_ids(connection, states, "endpoint", ids)
            values = asdict(replace(wanted, epoch=epoch, updated=self._now()))
            await connection.execute(insert(states), [values])
            if wanted.state == "closed":
                await delete_ids(connection, HOLDS, "endpoint", ids)

    async def parked_index(self, tenant: str | None = None, limit: int | None = None) -> Sequence[ParkedRow]:
        """Return the rows of the index that have not expired, newest first.

        Args:
            tenant: Only rows of this tenant.
            limit: Highest number of rows.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        wanted = (
            [self._is_present()] if tenant is None else [self._is_present(), PARKED_INDEX.c.tenant == tenant]
        )
        async with self._database.reading() as connection:
            return await read_rows(connection, *wanted, limit=limit)

    async def count_parked(self) -> int:
        """Return the number of messages in the parked queue, as the index has it.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            return await count_messages(connection, self._is_present())

    def _is_present(self) -> ColumnElement[bool]:
        return PARKED_INDEX.c.expires_at > self._now()

    async def parked_sizes(self) -> Mapping[str, int]:
        """Return how many rows of the index have not expired, by tenant; rows without one are left out.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        columns = PARKED_INDEX.c
        query = select(columns.tenant, func.count()).group_by(columns.tenant)
        query = query.where(self._is_present(), columns.tenant.is_not(None))
        async with self._database.reading() as connection:
            rows = () if connection is None else (await connection.execute(query)).all()
        return {row[0]: row[1] for row in rows}

    async def parked_counts(self) -> ParkedCounts:
        """Return how many rows of the index have not expired, by tenant and by subscription.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            return await read_counts(connection, self._now())

    async def forget_parked(self, entries: Mapping[str, float]) -> None:
        """Delete entries that have left the parked queue from the index, if there is one.

        Args:
            entries: Parking time of each, by its id; an entry that was parked again since stays.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        async with self._database.reading() as connection:
            if connection is None or not entries:
                return
        columns = PARKED_INDEX.c
        one = delete(PARKED_INDEX).where(columns.id == bindparam("of"), columns.parked_at <= bindparam("at"))
        async with self._database.writing() as connection:
            await connection.execute(one, [{"of": of, "at": at + ROUNDED_S} for of, at in entries.items()])

    async def write(self, batch: Batch) -> None:
        """Write *batch*, all or nothing, without states that are older than the stored ones.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        async with self._database.writing() as connection:
            await self._write_states(connection, batch.states)
            await write_healths(connection, batch.healths, batch.healths_anew)
            await write_holds(connection, batch.holds, self._now(), batch.holds_anew)
            gone = [*batch.gone, *batch.parked]
            await delete_ids(connection, PARKED_INDEX, "id", gone)
            if batch.parked and self._parked_max:
                await connection.execute(insert(PARKED_INDEX), list(map(values, batch.parked.values())))
                await self._prune(connection)

    async def _write_states(self, connection: AsyncConnection, states: Mapping[str, EndpointState]) -> None:
        if not states:
            return
        since = select(ENDPOINT_STATES.c.endpoint, ENDPOINT_STATES.c.since)
        there: dict[str, float] = {}
        for ids in chunks(list(states)):
            found = await connection.execute(since.where(ENDPOINT_STATES.c.endpoint.in_(ids)))
            there |= {row.endpoint: row.since for row in found}
        now = self._now()
        latest = now + CLOCK_SLACK_S  # a later row was written before the clock was set back
        fresh = [
            asdict(replace(state, updated=now))
            for endpoint, state in states.items()
            if there.get(endpoint, 0.0) <= state.since or there[endpoint] > latest
        ]
        if fresh:
            await delete_ids(connection, ENDPOINT_STATES, "endpoint", [row["endpoint"] for row in fresh])
            await connection.execute(insert(ENDPOINT_STATES), fresh)

    async def _prune(self, connection: AsyncConnection) -> None:
        columns = PARKED_INDEX.c
        await connection.execute(delete(PARKED_INDEX).where(columns.expires_at <= self._now()))
        newest = select(columns.parked_at).order_by(columns.parked_at.desc())
        first_too_old = await connection.scalar(newest.offset(self._parked_max).limit(1))
        if first_too_old is not None:
            await connection.execute(delete(PARKED_INDEX).where(columns.parked_at <= first_too_old))
