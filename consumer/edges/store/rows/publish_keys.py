"""Remember the idempotency keys of publishing clients, so that a repeated request publishes nothing twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final

from sqlalchemy import delete, insert, select, update

from consumer.edges.store.database import Database
from consumer.edges.store.tables import PUBLISH_KEYS

KEPT_S: Final = 86_400.0  #: a key is forgotten after this time


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishKey:
    """The use of one key."""

    tenant: str
    key: str
    digest: str  #: of the request; a request with another digest is another one
    event_id: str
    at: float = 0.0  #: Unix seconds of the first use
    confirmed: bool = False  #: whether the broker confirmed the event


class PublishKeys:
    """The keys of one store."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now

    async def claim(self, wanted: PublishKey) -> PublishKey:
        """Store a key at its first use; return the use that is stored now, the earlier one if there is one.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        columns, now = PUBLISH_KEYS.c, self._now()
        same = columns.tenant == wanted.tenant, columns.key == wanted.key
        async with self._database.writing() as connection:
            await connection.execute(delete(PUBLISH_KEYS).where(columns.at < now - KEPT_S))
            row = (await connection.execute(select(PUBLISH_KEYS).where(*same))).one_or_none()
            if row is not None:
                return PublishKey(**row._mapping)
            fresh = replace(wanted, at=now)
            await connection.execute(insert(PUBLISH_KEYS), [asdict(fresh)])
        return fresh

    async def confirm(self, used: PublishKey) -> None:
        """Note that the broker has the event.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        columns = PUBLISH_KEYS.c
        one = update(PUBLISH_KEYS).where(columns.tenant == used.tenant, columns.key == used.key)
        async with self._database.writing() as connection:
            await connection.execute(one.values(confirmed=True))
