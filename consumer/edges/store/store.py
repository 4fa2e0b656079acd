"""Keep subscriptions in SQL: the store that daemon and command line share.

Data flow: command line -> :meth:`SqlStore.change` (one transaction) -> a new mark ->
:meth:`SqlStore.changed` in the daemon -> :meth:`SqlStore.load`.

Secrets are sealed; see :mod:`consumer.core.store.sealing`. A reader never sees half of a change. Writers take
turns, so a change never starts from a state that another writer has replaced meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, bindparam, select, update

from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.steps import revive
from consumer.core.errors import ConfigError
from consumer.core.message.records import EndpointState, ParkedRow, short
from consumer.core.store.audit import Change
from consumer.core.store.lineage import Generation, Lineage
from consumer.core.store.tombstone import Tombstone
from consumer.core.subscription.pauses import Pause
from consumer.core.subscription.subscription import Subscription
from consumer.edges.store.changes import Changes, Step
from consumer.edges.store.database import Database, NewerSchema
from consumer.edges.store.keys import Keys, KeyUse, Rekeyed
from consumer.edges.store.loaded import LoadedSubscriptions, read_other
from consumer.edges.store.options import StoreOptions
from consumer.edges.store.rows.audit import write_audit
from consumer.edges.store.rows.entries import SubscriptionRow, resealed, to_subscription
from consumer.edges.store.rows.lineage import (
    advance,
    read_generation,
    read_lineage,
    read_tombstone,
)
from consumer.edges.store.rows.opened import OpenedEntries, read_subscriptions
from consumer.edges.store.rows.pauses import lift_pause, pause_change, read_pauses, write_pause
from consumer.edges.store.rows.records import Records
from consumer.edges.store.tables import SUBSCRIPTIONS

PROBE_S = 10.0
"""Seconds between queries of :meth:`SqlStore.changed`, even if the file's time stamps show no change."""


class SqlStore:
    """The stored subscriptions. Implements :class:`consumer.ports.Store`."""

    def __init__(
        self,
        database: Database,
        keys: Keys,
        records: Records,
        options: StoreOptions,
    ) -> None:
        """Bind to a database; nothing is opened yet.

        Args:
            database: Where the rows are.
            keys: What seals the secrets.
            records: The other rows of the database.
            options: Defaults of subscriptions, retention and clock.
        """
        self.records = records
        self._database = database
        self._keys = keys
        self._rules = options.rules
        self._now = options.now
        self._loaded = LoadedSubscriptions()
        self._opened = OpenedEntries()
        self._changes = Changes(database, keys, options, self._opened)
        self._lineage = Lineage(generation=Generation("", -1, ""))  #: of the loaded subscriptions
        self._fingerprint: Hashable = None
        self._key_fingerprint: Hashable = None
        self._probe_at = 0.0

    @property
    def where(self) -> str:
        """Place of the store, without a password."""
        return self._database.where

    @property
    def lineage(self) -> Lineage:
        """Identity and generations of the last load."""
        return self._lineage

    async def schema(self) -> str | None:
        """Return the number of the store's schema; see :meth:`Database.schema`."""
        return await self._database.schema()

    async def load(self) -> Sequence[Subscription]:
        """Migrate the schema, and return every subscription, enabled or not.

        An unchanged one is the same object as before, even while its key is missing. One is locked if its
        secrets cannot be opened or its retry policy is missing.

        Raises:
            StoreUnavailable: the store cannot be read.
            ConfigError: an entry is damaged; one line per problem.
        """
        with suppress(NewerSchema):  # the tables that this release knows may still exist
            await self._database.prepare()
        fingerprint, self._key_fingerprint = self._database.fingerprint(), self._keys.fingerprint()
        ring = self._keys.ring()
        async with self._database.reading() as connection:
            lineage = await read_lineage(connection)
            read = await read_other(connection, self._loaded)
            held = {pause.key for pause in await read_pauses(connection)}
        self._lineage, self._fingerprint = lineage, fingerprint

        def build(kept: SubscriptionRow) -> Subscription:
            return to_subscription(kept, ring, self._rules, self.where)

        return await asyncio.to_thread(self._loaded.build, read, build, held)

    async def entries(self, tenant: str | None = None) -> Sequence[StoredEntry]:
        """Return the stored entries with their secrets, by tenant and name; of one tenant if it is given.

        Raises:
            StoreUnavailable: the store cannot be read.
            ConfigError: an entry is damaged.
        """
        async with self._database.reading() as connection:
            rows = await read_subscriptions(connection, tenant)
        return await self._open(rows, is_whole=tenant is None)

    async def entries_and_pauses(
        self, tenant: str | None = None
    ) -> tuple[Sequence[StoredEntry], Sequence[Pause]]:
        """Return the same as :meth:`entries` and :meth:`pauses`, as they were at one time.

        Raises:
            StoreUnavailable: the store cannot be read.
            ConfigError: an entry is damaged.
        """
        async with self._database.reading() as connection:
            rows, found = await read_subscriptions(connection, tenant), await read_pauses(connection)
        return await self._open(rows, is_whole=tenant is None), found

    async def _open(self, rows: Sequence[Row[Any]], *, is_whole: bool) -> Sequence[StoredEntry]:
        ring = self._keys.ring()
        known = self._opened.remembered(rows, ring)
        if known is not None:
            return known
        return await asyncio.to_thread(self._opened.open, rows, ring, self.where, is_whole=is_whole)

    async def subscription_ids(self) -> frozenset[str]:
        """Return the ids of all subscriptions, enabled or not; this needs no key.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            if connection is None:
                return frozenset()
            return frozenset((await connection.scalars(select(SUBSCRIPTIONS.c.id))).all())

    async def change(
        self, step: Step, *, write: bool = True, by: str | None = None, who: str | None = None
    ) -> Merge:
        """Pass the stored entries to *step*, and store its additions, changes and removals, all or nothing.

        No other change comes between. Changes that wait for each other share one transaction.

        Args:
            step: Pure function; an exception of it leaves the store unchanged.
            write: False only returns the changes; then nothing is created or locked.
            by: Origin of removals, such as a command; tombstones contain it and the user of this process.
            who: Author for the audit log; None writes no line, as for the daemon's own changes.

        Raises:
            StoreUnavailable: the store cannot be read or written, and is unchanged.
            ConfigError: an entry is damaged, or there is no key to seal secrets with.
        """
        if not write:
            return await asyncio.to_thread(step, await self.entries())
        return await self._changes.change(step, by=by, who=who)

    async def disable(self, subscription_id: str, reason: str) -> None:
        """Set ``enabled: false`` and store the reason. Unknown ids are ignored.

        Raises:
            StoreUnavailable: the store cannot be written, and is unchanged.
        """
        at = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        table = SUBSCRIPTIONS.c
        statement = (
            update(SUBSCRIPTIONS)
            .where(table.id == subscription_id, table.enabled)
            .values(
                enabled=False,
                disabled_reason=short(reason),
                disabled_at=at,
                disabled_itself=True,
                version=table.version + 1,
            )
        )
        async with self._database.writing() as connection:
            if (await connection.execute(statement)).rowcount:
                await advance(connection)

    async def revive(self, subscription_id: str) -> None:
        """Enable a subscription that was disabled because its endpoint kept failing; others are ignored.

        Raises:
            StoreUnavailable: the store cannot be written, and is unchanged.
            ConfigError: an entry is damaged.
        """
        await self.change(lambda kept: revive(kept, subscription_id))

    async def key_uses(self) -> Sequence[KeyUse]:
        """Return the keys at hand in their order, then the missing ones.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        ring = self._keys.ring()
        async with self._database.reading() as connection:
            uses = Counter(row.key_id for row in await read_subscriptions(connection))
        at_hand = [key.id for key in ring.keys]
        return [
            KeyUse(id=of, is_at_hand=of in at_hand, is_first=[of] == at_hand[:1], subscriptions=uses[of])
            for of in dict.fromkeys([*at_hand, *sorted(uses)])
        ]

    async def rekey(self, who: str | None = None) -> Rekeyed:
        """Seal all secrets with the first key, except those that no key opens; *who* is for the audit log.

        Raises:
            StoreUnavailable: the store cannot be written, and is unchanged.
            ConfigError: there is no key.
        """
        ring = self._keys.ring()
        if not ring.keys:
            raise ConfigError(ring.fault)
        async with self._database.writing() as connection:
            rows = [SubscriptionRow.of(row) for row in await read_subscriptions(connection)]
            old = [row for row in rows if row.sealed.key_id != ring.keys[0].id]
            fresh = [found for row in old if (found := resealed(row, ring)) is not None]
            if fresh:
                table = SUBSCRIPTIONS.c
                one = update(SUBSCRIPTIONS).where(table.id == bindparam("of"))
                await connection.execute(
                    one.values(key_id=bindparam("key"), secrets=bindparam("sealed")), fresh
                )
                change = Change(action="store.rekeyed", target=ring.keys[0].id, after={"rekeyed": len(fresh)})
                await write_audit(connection, who, [change], self._now())
                await advance(connection)
        return Rekeyed(current=len(rows) - len(old), rekeyed=len(fresh), locked=len(old) - len(fresh))

    async def changed(self) -> bool:
        """Return whether the store differs from the last :meth:`load`.

        This mostly takes a few ``stat`` calls on SQLite, and one short query on PostgreSQL.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        if self._keys.fingerprint() != self._key_fingerprint:
            return True
        fingerprint = self._database.fingerprint()
        if fingerprint is not None and fingerprint == self._fingerprint and self._now() < self._probe_at:
            return False
        async with self._database.reading() as connection:
            generation = await read_generation(connection)
        self._probe_at = self._now() + PROBE_S
        if generation == self._lineage.generation:
            self._fingerprint = fingerprint
            return False
        return True

    async def tombstone(self, subscription_id: str) -> Tombstone | None:
        """Return the record of a deleted subscription; None if no deletion is known.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        loaded = self._lineage.generation
        async with self._database.reading() as connection:
            now = await read_generation(connection)
            if now.store != loaded.store or now.number < loaded.number:  # another store has taken its place
                return None
            return await read_tombstone(connection, subscription_id)

    async def read_lineage(self) -> Lineage:
        """Return the current identity and generations, for a command.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            return await read_lineage(connection)

    async def adopt(self, above: int, who: str | None = None) -> Generation:
        """Begin a generation with a number above *above* and above its own, and return it.

        *who* is for the audit log.

        Raises:
            StoreUnavailable: the store cannot be written, and is unchanged.
        """
        async with self._database.writing() as connection:
            after = await advance(connection, above)
            change = Change(action="store.adopted", target=after.store, after={"generation": after.number})
            await write_audit(connection, who, [change], self._now())
            return after

    async def pauses(self) -> Sequence[Pause]:
        """Return all pauses, the oldest first.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        async with self._database.reading() as connection:
            return await read_pauses(connection)

    async def pause(self, pause: Pause, *, lift: bool, who: str | None = None) -> bool:
        """Store a pause, or lift it; return whether that changed anything. *who* is for the audit log.

        Raises:
            StoreUnavailable: the store cannot be written, and is unchanged.
        """
        async with self._database.writing() as connection:
            changed = await (lift_pause if lift else write_pause)(connection, pause)
            if changed:
                await write_audit(connection, who, [pause_change(pause, lift=lift)], self._now())
                await advance(connection)
        return changed

    async def endpoint_states(self) -> Sequence[EndpointState]:
        """Return the latest state of each endpoint; see :meth:`Records.endpoint_states`."""
        return await self.records.endpoint_states()

    async def parked_index(self, tenant: str | None = None, limit: int | None = None) -> Sequence[ParkedRow]:
        """Return the index of parked entries, newest first; see :meth:`Records.parked_index`."""
        return await self.records.parked_index(tenant, limit)

    async def forget_parked(self, entries: Mapping[str, float]) -> None:
        """Delete entries from the index of parked entries; see :meth:`Records.forget_parked`."""
        await self.records.forget_parked(entries)

    async def close(self) -> None:
        """Close every connection, after the changes that are being written."""
        await self._changes.finish()
        await self._database.close()
