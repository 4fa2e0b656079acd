"""Read what operators see of endpoints, without their secrets, in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.message.records import EndpointState
from consumer.core.subscription.pauses import Pause, paused
from consumer.core.subscription.subscription import endpoint_id
from consumer.edges.store.rows.holds import read_holds
from consumer.edges.store.rows.pauses import read_pauses
from consumer.edges.store.tables import ENDPOINT_STATES, PARKED_INDEX, SUBSCRIPTIONS


class EndpointRow(NamedTuple):
    """A subscription with the state of its endpoint; times are Unix seconds."""

    id: str
    tenant: str
    name: str
    url: str
    events: Sequence[str]  #: AMQP topic patterns; a damaged row has none
    enabled: bool
    disabled_reason: str
    disabled_at: str  #: RFC 3339; empty if it is unknown
    pause: Pause | None  #: the pause that holds for it, the oldest one
    state: EndpointState | None  #: as a worker or an operator last wrote it
    held_until: float  #: end of the rest that the endpoint asked for; 0 without one
    parked: int  #: entries of the parked queue, as the index has them


async def read_endpoints(
    connection: AsyncConnection | None, now: float, tenant: str | None = None, of: str | None = None
) -> Sequence[EndpointRow]:
    """Return subscriptions, by tenant and name.

    Args:
        connection: A read transaction; None before a store exists.
        now: Unix seconds.
        tenant: Only those of this tenant.
        of: Only the one with this id.
    """
    if connection is None:
        return ()
    columns = SUBSCRIPTIONS.c
    query = select(*(each for each in columns if each.name not in ("secrets", "key_id")))
    query = query if tenant is None else query.where(columns.tenant == tenant)
    query = query if of is None else query.where(columns.id == of)
    rows = (await connection.execute(query.order_by(columns.tenant, columns.name))).all()
    states = {row.endpoint: EndpointState(**row._mapping) for row in await _states(connection)}
    holds, pauses = await read_holds(connection), await read_pauses(connection)
    parked = await read_parked_counts(connection, now)
    return [_row(row, states, holds, pauses, parked) for row in rows]


async def read_parked_counts(connection: AsyncConnection, now: float) -> Mapping[str, int]:
    """Return the number of parked entries of each subscription, by its id."""
    columns = PARKED_INDEX.c
    query = select(columns.subscription_ids, func.count()).where(columns.expires_at > now)
    counts: Counter[str] = Counter()
    for ids, count in (await connection.execute(query.group_by(columns.subscription_ids))).all():
        counts.update(dict.fromkeys(ids.split(), count))
    return counts


async def _states(connection: AsyncConnection) -> Sequence[Row[Any]]:
    return (await connection.execute(select(ENDPOINT_STATES))).all()


def _row(
    row: Row[Any],
    states: Mapping[str, EndpointState],
    holds: Mapping[str, float],
    pauses: Collection[Pause],
    parked: Mapping[str, int],
) -> EndpointRow:
    endpoint = endpoint_id(row.tenant, row.url)
    return EndpointRow(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        url=row.url,
        events=patterns_of(row.entry),
        enabled=row.enabled,
        disabled_reason=row.disabled_reason or "",
        disabled_at=row.disabled_at or "",
        pause=_pause_of(row, pauses) if pauses else None,
        state=states.get(endpoint),
        held_until=holds.get(endpoint, 0.0),
        parked=parked.get(row.id, 0),
    )


def _pause_of(row: Row[Any], pauses: Collection[Pause]) -> Pause | None:
    return next((each for each in pauses if paused([each.key], row.tenant, row.id)), None)


def patterns_of(entry: str) -> Sequence[str]:
    """Return the patterns of a stored entry; a damaged one has none."""
    try:
        return tuple(map(str, orjson.loads(entry)["events"]))
    except (ValueError, KeyError, TypeError):
        return ()
