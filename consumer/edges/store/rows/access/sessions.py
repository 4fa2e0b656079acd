"""Read and write the sessions of browsers. A cookie is never stored, only its hash."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.edges.store.database import Database
from consumer.edges.store.tables import SESSIONS

SESSIONS_MAX: Final = 10_000  #: of all tokens; the one that was used least recently ends first
SESSIONS_OF_TOKEN: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """One browser that is logged in; times are Unix seconds."""

    hash: str  #: of its cookie
    token: str  #: id of the token that logged in
    began: float
    seen: float  #: of the last request, to the minute


class SessionRows:
    """The sessions of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, session: StoredSession, *, began_after: float, seen_after: float) -> None:
        """Store a new session, and delete those that have ended or are too many.

        Args:
            session: The new session.
            began_after: Sessions that began earlier have ended.
            seen_after: Sessions without a request since then have ended.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        columns = SESSIONS.c
        async with self._database.writing() as connection:
            await connection.execute(
                delete(SESSIONS).where((columns.seen < seen_after) | (columns.began < began_after))
            )
            await _end_oldest(connection, SESSIONS_OF_TOKEN - 1, token=session.token)
            await _end_oldest(connection, SESSIONS_MAX - 1)
            await connection.execute(insert(SESSIONS), [asdict(session)])

    async def get(self, of: str) -> StoredSession | None:
        """Return the session of a cookie with this hash; None without such a session.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading(SESSIONS) as connection:
            if connection is None:
                return None
            row = (await connection.execute(select(SESSIONS).where(SESSIONS.c.hash == of))).one_or_none()
        return None if row is None else StoredSession(**row._mapping)

    async def note_seen(self, of: str, at: float) -> None:
        """Store when a session was last used.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        async with self._database.writing() as connection:
            await connection.execute(update(SESSIONS).where(SESSIONS.c.hash == of).values(seen=at))

    async def end(self, of: str) -> None:
        """Delete a session.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        async with self._database.writing() as connection:
            await connection.execute(delete(SESSIONS).where(SESSIONS.c.hash == of))


async def end_sessions_of(connection: AsyncConnection, token: str) -> None:
    """Delete every session of a token, in a write transaction."""
    await connection.execute(delete(SESSIONS).where(SESSIONS.c.token == token))


async def _end_oldest(connection: AsyncConnection, kept: int, *, token: str | None = None) -> None:
    """Delete sessions until at most *kept* are left, of one token or of all."""
    columns = SESSIONS.c
    chosen = [] if token is None else [columns.token == token]
    count = await connection.scalar(select(func.count()).select_from(SESSIONS).where(*chosen)) or 0
    if count > kept:
        oldest = select(columns.hash).where(*chosen).order_by(columns.seen, columns.hash)
        await connection.execute(delete(SESSIONS).where(columns.hash.in_(oldest.limit(count - kept))))
