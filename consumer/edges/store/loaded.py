"""Remember the loaded subscriptions, so that the next load builds only changed ones.

Data flow: database, some rows at a time -> :func:`read_other` -> :meth:`LoadedSubscriptions.build` (in a
thread) -> subscriptions; unchanged ones stay the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.errors import ConfigError
from consumer.core.subscription.pauses import paused
from consumer.core.subscription.subscription import Subscription
from consumer.edges.store.rows.entries import SubscriptionRow
from consumer.edges.store.rows.opened import ALL_ROWS

PART: Final = 500
"""Rows that are read before the event loop runs again: 500 take about 1 ms."""

Build = Callable[[SubscriptionRow], Subscription]


@dataclass(frozen=True, slots=True)
class Read:
    """The contents of the table now."""

    ids: Sequence[str]  #: ids of all rows
    other: Sequence[Row[Any]]  #: rows that are new, changed or locked


@dataclass(slots=True)
class LoadedSubscriptions:
    """The subscriptions by id, in the order of tenant and name."""

    built: dict[str, tuple[tuple[Any, ...], Subscription]] = field(default_factory=dict)
    held: dict[str, tuple[Subscription, Subscription]] = field(default_factory=dict)  #: with its paused copy

    def is_same(self, row: tuple[Any, ...]) -> bool:
        """Return whether *row* is unchanged; a locked one counts as changed, as its key may be back."""
        before = self.built.get(row[0])
        return before is not None and before[0] == row and before[1].locked is None

    def build(self, read: Read, build: Build, held: Collection[tuple[str, str]]) -> Sequence[Subscription]:
        """Take over the rows and return every subscription; an unchanged one is the same object as before.

        Args:
            read: Rows of the table.
            build: Makes a subscription from a row, or raises ConfigError.
            held: Keys of the pauses.

        Raises:
            ConfigError: some rows are damaged, one line per fault; then nothing is taken over.
        """
        fresh, faults = {}, []
        for row in sorted(read.other, key=lambda row: (row.tenant, row.name)):
            try:
                fresh[row[0]] = (tuple(row), build(SubscriptionRow.of(row)))
            except ConfigError as error:
                faults.append(str(error))
        if faults:
            raise ConfigError("\n".join(faults))
        ids, before = set(read.ids), self.built
        self.built = {each: fresh.get(each, was) for each, was in before.items() if each in ids}
        if fresh.keys() - before.keys():
            merged = (self.built | fresh).items()
            self.built = dict(sorted(merged, key=lambda item: (item[1][1].tenant, item[1][1].name)))
        return self._with_pauses(held)

    def _with_pauses(self, held: Collection[tuple[str, str]]) -> Sequence[Subscription]:
        if not held:
            self.held = {}
            return tuple([one for _, one in self.built.values()])
        before, self.held = self.held, {}
        found = []
        for _, one in self.built.values():
            if paused(held, one.tenant, one.id):
                known = before.get(one.id)
                copy = known[1] if known is not None and known[0] is one else replace(one, paused=True)
                self.held[one.id] = (one, copy)
                found.append(copy)
            else:
                found.append(one)
        return tuple(found)


async def read_other(connection: AsyncConnection | None, loaded: LoadedSubscriptions) -> Read:
    """Read the table and compare it with *loaded*, some rows at a time."""
    if connection is None:
        return Read((), ())
    ids: list[str] = []
    other: list[Row[Any]] = []
    result = await connection.stream(ALL_ROWS)
    async for part in result.partitions(PART):
        ids += [row[0] for row in part]
        other += [row for row in part if not loaded.is_same(tuple(row))]
    return Read(ids, other)
