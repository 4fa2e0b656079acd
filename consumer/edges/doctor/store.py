"""Look at the store: its file or database, its schema, its keys, and its agreement with the broker.

Data flow: settings -> store, read only -> :class:`StoreLook`. Nothing is migrated.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from consumer.core.changes.merge import StoredEntry
from consumer.core.errors import BrokerUnavailable, ConfigError, LeveretError
from consumer.core.history.wording import counted
from consumer.core.store.lineage import Doubt, Generation, Lineage, judge
from consumer.core.subscription.brief import SubscriptionBrief
from consumer.core.subscription.pauses import paused
from consumer.core.tools.doctor.finding import Check, Finding, fault, note, of_error, warning, well
from consumer.core.tools.doctor.store import KeyState, doubt_findings, key_findings, schema_findings
from consumer.core.tools.doctor.surroundings import ClockReading
from consumer.edges.broker.connection.connect import AmqpOptions
from consumer.edges.broker.store_record import recording
from consumer.edges.doctor.clocks import postgres_reading
from consumer.edges.sqlite_file.file import FILE_NAME
from consumer.edges.store import SqlStore, opened_store
from consumer.edges.store.keys import FILE_NAME as KEY_FILE_NAME
from consumer.edges.store.tables import SCHEMA
from consumer.settings import Settings
from topology.plan import sized_queues

RECORD_S = 20.0  #: longest time for the broker's record of the store


@dataclass(slots=True)
class StoreLook:
    """The store, as far as it could be read."""

    findings: list[Finding] = field(default_factory=list)
    readings: list[ClockReading] = field(default_factory=list)
    entries: Sequence[StoredEntry] = ()
    briefs: Sequence[SubscriptionBrief] = ()
    lineage: Lineage | None = None  #: None: there is no store, or it cannot be read
    where: str = ""

    async def take(self, settings: Settings) -> None:
        """Read the store of the settings; a store that cannot be read is a finding."""
        try:
            url = settings.postgres_url()
            async with opened_store(settings) as store:
                self.where = store.where
                await self._read(store)
        except LeveretError as error:
            self.findings += [
                of_error(Check.STORE, self.where or "the store", line.removeprefix(f"{self.where}: "))
                for line in str(error).splitlines()
            ]
            return
        if url is None:
            self.findings += await asyncio.to_thread(_file_findings, settings.home)
        else:
            reading = await postgres_reading(url, settings.store.busy_timeout_s)
            self.readings += [reading] if reading is not None else []
        self.findings += await asyncio.to_thread(_key_file_findings, settings)
        self.findings += _policy_findings(self.entries, settings)
        if self.lineage is not None and not any(each.check is Check.STORE for each in self.findings):
            text = f"can be read; {counted(len(self.entries), 'subscription')}"
            self.findings.append(well(Check.STORE, self.where, text))

    async def _read(self, store: SqlStore) -> None:
        found = await store.schema()
        if found is None:
            text = "there is no store yet; the first change makes it"
            self.findings.append(note(Check.STORE, store.where, text, "`leveret subscriptions apply FILE`"))
            return
        self.findings += schema_findings(store.where, found, SCHEMA)
        self.entries = await store.entries()
        held = {pause.key for pause in await store.pauses()}
        self.briefs = [_brief(entry, held) for entry in self.entries]
        keys = [
            KeyState(id=use.id, is_at_hand=use.is_at_hand, subscriptions=use.subscriptions)
            for use in await store.key_uses()
        ]
        locked = [(_name(entry), entry.locked) for entry in self.entries if entry.locked is not None]
        self.findings += key_findings(keys, locked)
        self.lineage = await store.read_lineage()

    async def doubt(self, options: AmqpOptions, settings: Settings) -> Sequence[Finding]:
        """Compare the store with the broker's record of it, and give the record back.

        Args:
            options: A broker that accepted a connection and has no alarm.
            settings: Names of the queues.
        """
        own, doubts = self.lineage, list[Doubt | None]()
        if own is None:
            return ()
        lineage = own

        def decide(recorded: Generation | None, messages: int) -> None:
            doubts[:] = [judge(lineage, recorded, messages)]

        spec = settings.topology_spec()
        queues = [name for name, _ in sized_queues(spec)]
        try:
            async with asyncio.timeout(RECORD_S), recording(options, spec.names, queues) as record:
                await record.settle(decide)
        except (BrokerUnavailable, TimeoutError) as error:
            text = f"was not compared with the broker's record of it: {error or 'it takes too long'}"
            return (note(Check.STORE, self.where, text.partition("; ")[0], "`leveret store show`"),)
        return tuple(each for doubt in doubts for each in doubt_findings(self.where, doubt))


def _name(entry: StoredEntry) -> str:
    return f"{entry.tenant}/{entry.label}"


def _brief(entry: StoredEntry, held: set[tuple[str, str]]) -> SubscriptionBrief:
    return SubscriptionBrief(
        id=entry.id,
        tenant=entry.tenant,
        name=entry.label,
        events=entry.events,
        enabled=entry.enabled,
        disabled_reason=entry.disabled_reason or "",
        paused=paused(held, entry.tenant, entry.id),
    )


def _file_findings(home: Path) -> Sequence[Finding]:
    """Return a fault if the store's SQLite file cannot be written."""
    path = home / FILE_NAME
    if path.exists() and not (os.access(path, os.W_OK) and os.access(home, os.W_OK)):
        remedy = "make file and folder writable for the user of the daemon"
        return (fault(Check.STORE, str(path), "cannot be written by this user", remedy),)
    return ()


def _key_file_findings(settings: Settings) -> Sequence[Finding]:
    """Return a warning if other users of this machine may read the key file."""
    if settings.store.key is not None:
        return ()
    path = settings.store.key_file or settings.home / KEY_FILE_NAME
    try:
        mode = path.stat().st_mode
    except OSError:  # a missing key is a fault of the secrets that it sealed
        return ()
    if mode & stat.S_IRWXO:
        text = "other users of this machine may read the keys of the store"
        return (warning(Check.KEYS, str(path), text, f"chmod 600 {path}"),)
    return ()


def _policy_findings(entries: Sequence[StoredEntry], settings: Settings) -> Sequence[Finding]:
    """Return subscriptions whose retry policy is missing from the settings: their deliveries are parked."""
    rules, faults = settings.subscription_rules(), []
    for entry in entries:
        try:
            entry.build(rules)
        except ConfigError as error:
            remedy = "put the policy back under [retry.policies], or apply the subscription with another"
            faults.append(fault(Check.SUBSCRIPTIONS, _name(entry), str(error), remedy))
    return faults
