"""Read and write the tokens of the HTTP API. A secret is never stored, only its hash."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Row, bindparam, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.store.audit import Change
from consumer.core.store.tokens import (
    ID_BYTES,
    SECRET_BYTES,
    Scope,
    StoredToken,
    Token,
    parse_token,
    secret_hash,
    token_id,
    token_text,
)
from consumer.edges.store.database import Database
from consumer.edges.store.rows.access.sessions import end_sessions_of
from consumer.edges.store.rows.audit import write_audit
from consumer.edges.store.tables import TOKENS

_ONE: Final = select(TOKENS).where(TOKENS.c.id == bindparam("of"))
_SHOWN: Final = [column for column in TOKENS.c if column.name != "hash"]


class Tokens:
    """The tokens of one store."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now

    async def all(self) -> Sequence[Token]:
        """Return every token, the newest first, revoked ones too.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        query = select(*_SHOWN).order_by(TOKENS.c.created.desc(), TOKENS.c.id)
        async with self._database.reading(TOKENS) as connection:
            if connection is None:
                return ()
            return [_token(row) for row in (await connection.execute(query)).all()]

    async def get(self, token: str) -> StoredToken | None:
        """Return the token with this id; None if there is none.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading(TOKENS) as connection:
            if connection is None:
                return None
            return await _stored(connection, token)

    async def create(
        self, name: str, scope: Scope, *, tenant: str | None = None, expires: float | None = None, who: str
    ) -> tuple[Token, str]:
        """Store a new token; return it, and its text, which nobody can see again.

        Args:
            name: For people.
            scope: Its rights.
            tenant: The only tenant that it sees; None: every tenant.
            expires: Unix seconds; None: never.
            who: Author of the change.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        text = token_text(token_id(os.urandom(ID_BYTES)), os.urandom(SECRET_BYTES))
        presented = parse_token(text)
        if presented is None:
            raise AssertionError("a new token can be read")
        now = self._now()
        token = Token(id=presented.id, name=name, scope=scope, tenant=tenant, created=now, expires=expires)
        row = asdict(token) | {"scope": scope.value, "hash": secret_hash(presented.secret)}
        after = {"name": name, "scope": scope.value, "expires": expires}
        change = Change(action="token.created", target=token.id, tenant=tenant, after=after)
        async with self._database.writing() as connection:
            await connection.execute(insert(TOKENS), [row])
            await write_audit(connection, who, [change], now)
        return token, text

    async def revoke(self, token: str, who: str) -> tuple[Token | None, bool]:
        """End a token with its sessions, for good; return it, and whether it was valid until now.

        Without a token of this id, the first value is None.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        now = self._now()
        one = update(TOKENS).where(TOKENS.c.id == token, TOKENS.c.revoked.is_(None)).values(revoked=now)
        async with self._database.writing() as connection:
            is_changed = bool((await connection.execute(one)).rowcount)
            found = await _stored(connection, token)
            if found is None:
                return None, False
            if is_changed:
                change = Change(
                    action="token.revoked",
                    target=token,
                    tenant=found.token.tenant,
                    before={"name": found.token.name, "scope": found.token.scope.value},
                )
                await write_audit(connection, who, [change], now)
                await end_sessions_of(connection, token)
        return found.token, is_changed

    async def note_used(self, times: Mapping[str, float]) -> None:
        """Store when tokens were last used, by their ids, in Unix seconds.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        if not times:
            return
        columns = TOKENS.c
        older = or_(columns.last_used.is_(None), columns.last_used < bindparam("at"))
        one = update(TOKENS).where(columns.id == bindparam("of"), older).values(last_used=bindparam("at"))
        async with self._database.writing() as connection:
            await connection.execute(one, [{"of": of, "at": at} for of, at in times.items()])


async def _stored(connection: AsyncConnection, token: str) -> StoredToken | None:
    row = (await connection.execute(_ONE, {"of": token})).one_or_none()
    return None if row is None else StoredToken(token=_token(row), hash=row.hash)


def _token(row: Row[Any]) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        scope=Scope(row.scope),
        tenant=row.tenant,
        created=row.created,
        expires=row.expires,
        last_used=row.last_used,
        revoked=row.revoked,
    )
