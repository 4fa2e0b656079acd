"""Read and write the audit log. A change and its line are written in one transaction where both are rows."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.store.audit import AuditFilter, AuditLine, Change
from consumer.core.text.ids import uuid7
from consumer.edges.store.database import Database
from consumer.edges.store.tables import AUDIT

KEPT_S: Final = 400 * 86_400.0  #: a line is deleted after this time: a year, and a month to read it

PUBLISHED: Final = "event.published"
PUBLISHED_KEPT_S: Final = 30 * 86_400.0
"""Lines of published events are deleted after this time: there may be many in each second."""
PRUNED_EVERY_S: Final = 3_600.0


class Audit:
    """The audit log of one store."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database = database
        self._now = now
        self._pruned = 0.0  #: Unix seconds of the last deletion of lines of published events

    async def add(self, who: str, *changes: Change) -> None:
        """Write changes whose objects are not rows of the store, such as parked entries.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        async with self._database.writing() as connection:
            await write_audit(connection, who, changes, self._now())

    async def begin(self, who: str, change: Change) -> str:
        """Write the line of a deed outside of the store before it is done; return the id of the line.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        now = self._now()
        async with self._database.writing() as connection:
            [line] = await write_audit(connection, who, [change], now)
            if change.action == PUBLISHED and abs(now - self._pruned) >= PRUNED_EVERY_S:
                old = AUDIT.c.action == PUBLISHED, AUDIT.c.at < now - PUBLISHED_KEPT_S
                await connection.execute(delete(AUDIT).where(*old))
                self._pruned = now
        return line

    async def finish(self, line: str, after: Mapping[str, object]) -> None:
        """Write the outcome of a deed into its line.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        one = update(AUDIT).where(AUDIT.c.id == line)
        async with self._database.writing() as connection:
            await connection.execute(one.values(after=_json(after)))

    async def lines(self, wanted: AuditFilter, limit: int) -> Sequence[AuditLine]:
        """Return at most *limit* lines, newest first.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        query = select(AUDIT).where(*_conditions(wanted)).order_by(AUDIT.c.id.desc()).limit(limit)
        async with self._database.reading(AUDIT) as connection:
            if connection is None:
                return ()
            return [_line(row) for row in (await connection.execute(query)).all()]


async def write_audit(
    connection: AsyncConnection, who: str | None, changes: Sequence[Change], now: float
) -> Sequence[str]:
    """Write a line for each change, and delete old lines; nothing if *who* is None or nothing changed.

    Returns the ids of the lines.

    Args:
        connection: A write transaction.
        who: Author of the changes.
        changes: The changes, in their order.
        now: Unix seconds.
    """
    return () if who is None else await write_audits(connection, [(who, change) for change in changes], now)


async def write_audits(
    connection: AsyncConnection, changes: Sequence[tuple[str, Change]], now: float
) -> Sequence[str]:
    """Write a line for each change of several authors, and delete old lines; nothing without a change.

    Returns the ids of the lines.

    Args:
        connection: A write transaction.
        changes: Author and change, in their order.
        now: Unix seconds.
    """
    if not changes:
        return ()
    start = int.from_bytes(os.urandom(7), "big")  # lines of one call keep their order
    rows = [
        {
            "id": uuid7(int(now * 1000), (start + place).to_bytes(10, "big")),
            "at": now,
            "who": who,
            "action": change.action,
            "target": change.target,
            "tenant": change.tenant,
            "before": _json(change.before),
            "after": _json(change.after),
        }
        for place, (who, change) in enumerate(changes)
    ]
    await connection.execute(delete(AUDIT).where(AUDIT.c.at < now - KEPT_S))
    await connection.execute(insert(AUDIT), rows)
    return [str(row["id"]) for row in rows]


def system_user() -> str:
    """Return the name of the user of this process; the number of one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def cli_author() -> str:
    """Return the author of changes that are made on the command line."""
    return f"cli:{system_user()}"


def _conditions(wanted: AuditFilter) -> Sequence[ColumnElement[bool]]:
    columns, found = AUDIT.c, []
    if wanted.tenant is not None:
        found.append(columns.tenant == wanted.tenant)
    if wanted.who is not None:
        found.append(columns.who == wanted.who)
    if wanted.action is not None and "." in wanted.action:
        found.append(columns.action == wanted.action)
    elif wanted.action is not None:
        found.append(columns.action.startswith(f"{wanted.action}.", autoescape=True))
    if wanted.target is not None:
        found.append(columns.target == wanted.target)
    if wanted.since is not None:
        found.append(columns.at >= wanted.since)
    if wanted.before_id is not None:
        found.append(columns.id < wanted.before_id)
    return found


def _json(values: object) -> str:
    return orjson.dumps(values, default=str).decode()


def _line(row: Row[Any]) -> AuditLine:
    change = Change(action=row.action, target=row.target, tenant=row.tenant)
    change = replace(change, before=orjson.loads(row.before), after=orjson.loads(row.after))
    return AuditLine(id=row.id, at=row.at, who=row.who, change=change)
