"""Write changes of subscriptions. Changes that wait for each other share one transaction: a group commit.

Data flow: :meth:`Changes.change` -> waiting -> one task: rows -> entries -> step after step, each from the
result of the one before -> rows, tombstones, audit log, one generation -> commit -> results.

So a step sees exactly what it would see if each change had a transaction of its own. The checks of a change
are its own: a step that raises changes nothing, and the others of its group go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Row, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from consumer.core.changes.audited import changes_of
from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.errors import ConfigError, StoreUnavailable
from consumer.core.message.records import short
from consumer.core.retry.policy import max_age_s
from consumer.core.store.audit import Change
from consumer.core.store.sealing import KeyRing
from consumer.core.store.tombstone import Tombstone, keep_until
from consumer.core.subscription.subscription import endpoint_id
from consumer.edges.store.batches import delete_ids
from consumer.edges.store.database import Database
from consumer.edges.store.keys import Keys
from consumer.edges.store.options import StoreOptions
from consumer.edges.store.rows.audit import write_audits
from consumer.edges.store.rows.entries import SubscriptionRow, to_row
from consumer.edges.store.rows.lineage import advance, deleted_by, write_tombstones
from consumer.edges.store.rows.opened import OpenedEntries, read_subscriptions
from consumer.edges.store.tables import ENDPOINT_STATES, HEALTH, HOLDS, SUBSCRIPTIONS

Step = Callable[[Sequence[StoredEntry]], Merge]
"""A pure step from the stored entries to the new ones."""

GROUP_MAX: Final = 50
"""Changes in one transaction: other writers wait for it, for about 0.2 s at this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A change that waits for its turn."""

    step: Step
    by: str | None
    who: str | None
    result: asyncio.Future[Merge] = field(default_factory=asyncio.Future)


@dataclass(slots=True, kw_only=True)
class _Table:
    """The subscriptions within a transaction, as the steps so far have left them."""

    rows: dict[str, Row[Any]]  #: as they were read, by id
    entries: Sequence[StoredEntry]  #: by tenant and name
    ring: KeyRing
    fresh: dict[str, SubscriptionRow] = field(default_factory=dict)  #: written in this transaction

    def row(self, subscription_id: str) -> SubscriptionRow:
        """Return the present row of a subscription that exists."""
        known = self.fresh.get(subscription_id)
        return SubscriptionRow.of(self.rows[subscription_id]) if known is None else known

    def use(self, ring: KeyRing) -> None:
        """Seal further rows with *ring*."""
        self.ring = ring

    def note(self, merged: Merge, fresh: Sequence[Mapping[str, Any]]) -> None:
        """Take the outcome of a step whose *fresh* rows are written."""
        self.fresh |= {str(row["id"]): SubscriptionRow.of_values(row) for row in fresh}
        self.entries = sorted(merged.entries, key=lambda entry: (entry.tenant, entry.label))


@dataclass(slots=True)
class _Notes:
    """The rows beside the subscriptions that a transaction writes once, for all its changes together."""

    has_changed: bool = False
    deleted: dict[str, Tombstone] = field(default_factory=dict)  #: by id of the subscription
    made: dict[str, None] = field(default_factory=dict)  #: ids of added subscriptions
    audited: list[tuple[str, Change]] = field(default_factory=list)

    def add(self, one: _Wanted, merged: Merge, tombstones: Sequence[Tombstone]) -> None:
        """Take a change; a subscription that is removed and added again has no tombstone."""
        self.has_changed = True
        for tombstone in tombstones:
            self.deleted[tombstone.id] = tombstone
            self.made.pop(tombstone.id, None)
        for entry in merged.added:
            self.made[entry.id] = None
            self.deleted.pop(entry.id, None)
        if one.who is not None:
            self.audited += [(one.who, change) for change in changes_of(merged)]


class Changes:
    """The changes of one store."""

    def __init__(self, database: Database, keys: Keys, options: StoreOptions, opened: OpenedEntries) -> None:
        self._database = database
        self._keys = keys
        self._options = options
        self._opened = opened
        self._waiting: list[_Wanted] = []
        self._writing: asyncio.Task[None] | None = None

    async def change(self, step: Step, *, by: str | None, who: str | None) -> Merge:
        """Store the result of *step*; see :meth:`consumer.edges.store.store.SqlStore.change`.

        Raises:
            StoreUnavailable: the store cannot be read or written, and is unchanged.
            ConfigError: an entry is damaged, or there is no key to seal secrets with.
        """
        wanted = _Wanted(step=step, by=by, who=who)
        self._waiting.append(wanted)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_waiting(), name="store changes")
        return await wanted.result

    async def finish(self) -> None:
        """Wait until no change is being written; a caller that was cancelled does not wait for its own."""
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write_waiting(self) -> None:
        """Write until no change waits; whose caller has gone is left out."""
        while self._waiting:
            group = [one for one in self._waiting[:GROUP_MAX] if not one.result.done()]
            del self._waiting[:GROUP_MAX]
            try:
                await self._write(group)
            finally:  # only a loop that ends leaves some without a result
                for one in group:
                    one.result.cancel()

    async def _write(self, group: Sequence[_Wanted]) -> None:
        """Write a group. A fault that may be of one change alone lets each be tried alone."""
        if not group:
            return
        try:
            outcomes = await self._write_together(group)
        except Exception as error:
            if len(group) == 1 or isinstance(error, StoreUnavailable):
                outcomes = [error] * len(group)
            else:
                for one in group:
                    await self._write([one])
                return
        for one, outcome in zip(group, outcomes, strict=True):
            if one.result.done():  # its caller has gone meanwhile
                continue
            if isinstance(outcome, Merge):
                one.result.set_result(outcome)
            else:
                one.result.set_exception(outcome)

    async def _write_together(self, group: Sequence[_Wanted]) -> list[Merge | Exception]:
        """Write a group in one transaction; return the result of each step, or what it raised."""
        outcomes: list[Merge | Exception] = []
        notes = _Notes()
        async with self._database.writing() as connection:
            table = await self._read(connection)
            for one in group:
                try:
                    merged = await asyncio.to_thread(one.step, table.entries)
                except Exception as error:  # of this step alone
                    outcomes.append(error)
                    continue
                outcomes.append(merged)
                if merged.added or merged.changed or merged.removed:
                    await self._save(connection, table, merged)
                    notes.add(one, merged, self._tombstones(merged, one.by))
            if notes.has_changed:
                now = self._options.now()
                await write_tombstones(connection, list(notes.deleted.values()), list(notes.made), now)
                await write_audits(connection, notes.audited, now)
                await advance(connection)
        return outcomes

    async def _read(self, connection: AsyncConnection) -> _Table:
        rows, ring = await read_subscriptions(connection), self._keys.ring()
        entries = await asyncio.to_thread(self._opened.open, rows, ring, self._database.where)
        return _Table(rows={row.id: row for row in rows}, entries=entries, ring=ring)

    async def _save(self, connection: AsyncConnection, table: _Table, merged: Merge) -> None:
        """Write one change. Changed rows are deleted and inserted, as two may have swapped URLs."""
        if not table.ring.keys and not table.entries:
            table.use(await asyncio.to_thread(self._keys.make))
        before = {entry.id: table.row(entry.id) for entry in (*merged.removed, *merged.changed)}
        fresh = [
            to_row(entry, before.get(entry.id), table.ring) for entry in (*merged.added, *merged.changed)
        ]
        await delete_ids(connection, SUBSCRIPTIONS, "id", list(before))
        if fresh:
            await connection.execute(insert(SUBSCRIPTIONS), fresh)
        for state in (ENDPOINT_STATES, HEALTH, HOLDS):
            await delete_ids(connection, state, "endpoint", _outdated(before, merged))
        table.note(merged, fresh)

    def _tombstones(self, merged: Merge, by: str | None) -> Sequence[Tombstone]:
        """Return a tombstone for each removed subscription."""
        if not merged.removed:
            return ()
        now, author = self._options.now(), short(deleted_by(by))
        return [
            Tombstone(
                id=entry.id,
                tenant=entry.tenant,
                name=entry.label,
                deleted_at=now,
                deleted_by=author,
                keep_until=keep_until(now, self._max_age_s(entry), self._options.parked_ttl_s),
            )
            for entry in merged.removed
        ]

    def _max_age_s(self, entry: StoredEntry) -> float:
        """Return the highest age of a delivery in seconds; of all policies if its own is missing."""
        rules = self._options.rules
        try:
            return max_age_s(entry.build(rules).retry)
        except ConfigError:
            return max(map(max_age_s, rules.policies.values()))


def _outdated(before: dict[str, SubscriptionRow], merged: Merge) -> Sequence[str]:
    """Return the endpoints whose stored state is void: removed, moved, or enabled again."""
    removed = [before[entry.id] for entry in merged.removed]
    old = [(before[entry.id], entry) for entry in merged.changed]
    moved = [was for was, now in old if was.url != now.url or (now.enabled and not was.enabled)]
    return [endpoint_id(was.tenant, was.url) for was in (*removed, *moved)]
