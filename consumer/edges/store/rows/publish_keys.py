"""Remember the idempotency keys of publishing clients, so that a repeated request publishes nothing twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, delete, insert, select, update

from consumer.edges.store.database import Database
from consumer.edges.store.tables import PUBLISH_KEYS

KEPT_S: Final = 86_400.0  #: a key is forgotten after this time
LEASE_S: Final = 30.0
"""Seconds for which a claim holds; a process that has not confirmed by then has ended, and loses the key."""
CLOCK_SLACK_S: Final = 60.0
"""A claim that ends later than this after a new one would end is of a clock that was set back since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishKey:
    """The use of one key."""

    tenant: str
    key: str
    digest: str  #: of the request; a request with another digest is another one
    event_id: str
    at: float = 0.0  #: Unix seconds of the first use
    confirmed: bool = False  #: whether the broker confirmed the event
    claimed_until: float = 0.0  #: Unix seconds; until then one process publishes the event


class Claim(NamedTuple):
    """The use of a key that is stored now."""

    use: PublishKey
    is_ours: bool  #: whether the caller publishes the event; otherwise another one did, or is about to


class PublishKeys:
    """The keys of one store."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now

    async def claim(self, wanted: PublishKey) -> Claim:
        """Take a key that no process holds; a key that another request has used keeps its first use.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        async with self._database.writing() as connection:
            now = self._now()  # another process may have held the store for a while
            until = now + LEASE_S
            await connection.execute(delete(PUBLISH_KEYS).where(PUBLISH_KEYS.c.at < now - KEPT_S))
            row = (await connection.execute(select(PUBLISH_KEYS).where(*_same(wanted)))).one_or_none()
            if row is None:
                fresh = replace(wanted, at=now, claimed_until=until)
                await connection.execute(insert(PUBLISH_KEYS), [asdict(fresh)])
                return Claim(fresh, is_ours=True)
            used = PublishKey(**row._mapping)
            is_held = now < used.claimed_until <= until + CLOCK_SLACK_S
            if used.confirmed or is_held or used.digest != wanted.digest:
                return Claim(used, is_ours=False)
            await connection.execute(update(PUBLISH_KEYS).where(*_same(used)).values(claimed_until=until))
        return Claim(replace(used, claimed_until=until), is_ours=True)

    async def confirm(self, used: PublishKey) -> None:
        """Note that the broker has the event.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        await self._set(used, confirmed=True)

    async def release(self, claimed: PublishKey) -> None:
        """Let a repeated request publish the event at once, as this one failed.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        ours = PUBLISH_KEYS.c.claimed_until == claimed.claimed_until
        await self._set(claimed, ours, claimed_until=0.0)

    async def _set(self, used: PublishKey, *further: ColumnElement[bool], **values: object) -> None:
        async with self._database.writing() as connection:
            one = update(PUBLISH_KEYS).where(*_same(used), *further)
            await connection.execute(one.values(values))


def _same(wanted: PublishKey) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return PUBLISH_KEYS.c.tenant == wanted.tenant, PUBLISH_KEYS.c.key == wanted.key
