"""Remember opened entries, so that a change decrypts and checks only the rows that differ since the last one.

Data flow: table, inside a transaction -> :func:`read_subscriptions` -> :meth:`OpenedEntries.open` (in a
thread) -> entries. A whole row is compared, so a change by another process or by hand is always noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, Select, bindparam, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.changes.merge import StoredEntry
from consumer.core.store.sealing import KeyRing, StoreKey
from consumer.edges.store.rows.entries import SubscriptionRow, to_entry
from consumer.edges.store.tables import SUBSCRIPTIONS

KNOWN_MAX: Final = 10_000
"""Entries that are remembered, at about 5 kB each; further ones are opened at each change."""

ALL_ROWS: Final[Select[Any]] = select(literal_column("*")).select_from(SUBSCRIPTIONS)
"""The columns that the table has: one that an earlier release made has fewer."""
_OF_TENANT: Final = ALL_ROWS.where(SUBSCRIPTIONS.c.tenant == bindparam("of"))

AT_ONCE: Final = 100  #: rows that are compared without a thread

_Known = dict[str, tuple[tuple[Any, ...], StoredEntry]]


class OpenedEntries:
    """The entries that were opened last, by id. Threads may share it: its memory is replaced as a whole."""

    def __init__(self) -> None:
        self._memory: tuple[Sequence[StoreKey], _Known] = ((), {})  #: keys, and the entries that they opened

    def remembered(self, rows: Sequence[Row[Any]], ring: KeyRing) -> Sequence[StoredEntry] | None:
        """Return the entries of a few rows without a thread; None if some are not remembered, or are many."""
        keys, known = self._memory
        if len(rows) > AT_ONCE or keys != ring.keys:
            return None
        entries = []
        for row in rows:
            found = known.get(row[0])
            if found is None or found[0] != tuple(row):
                return None
            entries.append(found[1])
        return entries

    def open(
        self, rows: Sequence[Row[Any]], ring: KeyRing, where: str, *, is_whole: bool = True
    ) -> Sequence[StoredEntry]:
        """Return the entry of each row, in the order of *rows*.

        An entry counts only for the keys that opened it. A locked one is opened each time: its key may
        be back.

        Args:
            rows: Rows of the table.
            ring: The keys at hand.
            where: Place of the store, for messages.
            is_whole: Whether *rows* are the whole table, so that no other entry has to be remembered.

        Raises:
            ConfigError: a row is damaged.
        """
        keys, known_before = self._memory
        before = known_before if keys == ring.keys else {}
        known: _Known = {}
        entries = []
        for row in rows:
            values = tuple(row)
            found = before.get(values[0])
            if found is None or found[0] != values:
                found = (values, to_entry(SubscriptionRow.of(row), ring, where))
            entries.append(found[1])
            if found[1].locked is None and len(known) < KNOWN_MAX:
                known[values[0]] = found
        if not is_whole:  # a read of some rows never forgets others
            merged = before | known
            known = merged if len(merged) <= KNOWN_MAX else before
        self._memory = (ring.keys, known)
        return entries


async def read_subscriptions(
    connection: AsyncConnection | None, tenant: str | None = None
) -> Sequence[Row[Any]]:
    """Return every row, or those of one tenant, by tenant and name."""
    if connection is None:
        return ()
    if tenant is None:
        rows = (await connection.execute(ALL_ROWS)).all()
    else:
        rows = (await connection.execute(_OF_TENANT, {"of": tenant})).all()
    return sorted(rows, key=lambda row: (row.tenant, row.name))
