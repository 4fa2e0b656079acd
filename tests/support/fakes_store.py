"""A store in memory that keeps the same promises as the SQL one; checked by the same contract suite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count

from consumer.core.changes.merge import Merge, StoredEntry, merge
from consumer.core.changes.steps import revive
from consumer.core.endpoint.health import Health
from consumer.core.errors import StoreUnavailable
from consumer.core.history.batch import HistoryBatch, received_row
from consumer.core.history.records import HistoryRow, Query, StoredStep
from consumer.core.history.records import Step as HistoryStep
from consumer.core.message.records import ParkedRow
from consumer.core.model import Attempt, Event
from consumer.core.store.lineage import Decide, Generation, Lineage
from consumer.core.store.tombstone import Tombstone, keep_until
from consumer.core.subscription.entry import SubscriptionEntry
from consumer.core.subscription.rules import SubscriptionRules
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.printable import MASK
from consumer.core.webhook.signing import format_secret
from consumer.edges.history.history_store import Limits

Step = Callable[[Sequence[StoredEntry]], Merge]

NOW = 1_700_000_000.0  #: when everything is deleted


def counting_secrets() -> Callable[[], str]:
    """Return a maker of secrets that are all different and the same in every run."""
    numbers = count(1)
    return lambda: format_secret(next(numbers).to_bytes(32, "big"))


class MemoryStore:
    """Subscriptions in memory. Implements ``ports.Store``, with the methods of the command line.

    Attributes:
        failure: Raised by every call while it is set: a store that is away (fault 68).
        loads: How often the subscriptions were loaded.
        locked: Ids of subscriptions whose secrets cannot be decrypted (fault 69).
        paused: Ids of subscriptions that an operator paused.
    """

    def __init__(self, rules: SubscriptionRules | None = None) -> None:
        self.failure: Exception | None = None
        self.loads = 0
        self.locked: set[str] = set()
        self.paused: set[str] = set()
        self._rules = rules or SubscriptionRules()
        self._entries: dict[str, StoredEntry] = {}
        self._make_secret = counting_secrets()
        self._version = 0
        self._loaded = -1
        self._tombstones: dict[str, Tombstone] = {}
        self.name = "memory"  #: identity
        self.branch = ""  #: begins every mark
        self.lineage = Lineage(generation=Generation(self.name, -1, ""))

    async def load(self) -> Sequence[Subscription]:
        """Return every subscription, enabled or not."""
        self.loads += 1
        entries = await self.entries()
        self._loaded = self._version
        marks = {number: f"{self.branch}{number}" for number in range(self._version + 1)}
        generation = Generation(self.name, self._version, marks[self._version])
        self.lineage = Lineage(generation=generation, marks=marks, subscriptions=len(entries))
        built = (entry.build(self._rules) for entry in entries)
        return tuple(replace(each, paused=each.id in self.paused) for each in built)

    async def entries(self) -> Sequence[StoredEntry]:
        """Return the entries as they are kept, by tenant and name."""
        self._fail()
        entries = (self._shown(entry) for entry in self._entries.values())
        return sorted(entries, key=lambda entry: (entry.tenant, entry.label))

    def _shown(self, entry: StoredEntry) -> StoredEntry:
        if entry.id not in self.locked:
            return entry
        locked = {"secrets": (), "locked": "the store's key is missing"}
        return entry.with_secrets(dict.fromkeys(entry.credentials(), MASK)).model_copy(update=locked)

    def _sealed(self, entry: StoredEntry) -> StoredEntry:
        """Return *entry* with the sealed parts of the stored one, if that is locked."""
        if entry.locked is None:
            return entry
        old = self._entries[entry.id]
        return entry.with_secrets(old.credentials()).model_copy(
            update={"secrets": old.secrets, "locked": None}
        )

    async def tombstone(self, subscription_id: str) -> Tombstone | None:
        """Return when and by whom a subscription was deleted."""
        self._fail()
        return self._tombstones.get(subscription_id)

    async def adopt(self, above: int) -> Generation:
        """Begin a generation with a number above *above* and above its own, and return it."""
        self._version = max(self._version, above) + 1
        return Generation(self.name, self._version, f"{self.branch}{self._version}")

    async def change(self, step: Step, *, write: bool = True, by: str | None = None) -> Merge:
        """Pass the kept entries to *step*, and keep its additions, changes and removals."""
        merged = step(await self.entries())
        if write and (merged.added or merged.changed or merged.removed):
            self._version += 1
            for entry in merged.removed:
                del self._entries[entry.id]
                self._tombstones[entry.id] = Tombstone(
                    entry.id, entry.tenant, entry.label, NOW, by or "somebody", keep_until(NOW, 0, 0)
                )
            for entry in merged.added:
                self._tombstones.pop(entry.id, None)
            self._entries |= {entry.id: self._sealed(entry) for entry in (*merged.added, *merged.changed)}
        return merged

    async def disable(self, subscription_id: str, reason: str) -> None:
        """Set ``enabled: false`` and remember why. Unknown ids are ignored."""
        self._fail()
        entry = self._entries.get(subscription_id)
        if entry is not None and entry.enabled:
            notes = {"enabled": False, "disabled_reason": reason, "disabled_at": "2026-01-01T00:00:00Z"}
            self._entries[entry.id] = entry.model_copy(update={**notes, "disabled_itself": True})
            self._version += 1

    async def revive(self, subscription_id: str) -> None:
        """Enable a subscription that was disabled since its endpoint took nothing; others are ignored."""
        self._fail()
        await self.change(lambda kept: revive(kept, subscription_id))

    async def apply(
        self, wanted: Sequence[SubscriptionEntry], *, prune: bool = False, enable: bool = False
    ) -> Merge:
        """Bring *wanted* into the store and return the changes."""
        return await self.change(
            lambda kept: merge(kept, wanted, self._make_secret, prune=prune, enable=enable)
        )

    async def changed(self) -> bool:
        """Return whether anything changed since the last :meth:`load`."""
        self._fail()
        return self._version != self._loaded

    async def close(self) -> None:
        """Do nothing: the store has no connection."""

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


class MemoryRecord:
    """The record of the store that the broker keeps. Implements ``ports.StoreRecord``.

    Attributes:
        generation: The recorded generation.
        messages: How many the broker holds.
        failure: Raised by every call while it is set.
        before: Called once, before the record is seen the next time.
    """

    def __init__(self) -> None:
        self.generation: Generation | None = None
        self.messages = 0
        self.failure: Exception | None = None
        self.before: Callable[[], Awaitable[None]] | None = None

    async def settle(self, decide: Decide) -> Generation | None:
        """Pass the record to *decide*, and record its result."""
        before, self.before = self.before, None
        if before is not None:
            await before()
        if self.failure is not None:
            raise self.failure
        self.generation = decide(self.generation, self.messages) or self.generation
        return self.generation


class MemoryRecorder:
    """Keeps all records, in their order. Implements ``ports.Recorder``."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str, int, str]] = []  #: name of the subscription, state, epoch, reason
        self.healths: list[tuple[str, Health]] = []  #: name of the subscription, its health
        self.holds: list[tuple[str, float]] = []  #: name of the subscription, until when
        self.entries: dict[str, ParkedRow] = {}  #: entries that are parked now, by id

    def endpoint(self, subscription: Subscription, state: str, *, epoch: int, reason: str = "") -> None:
        """Record the state of an endpoint."""
        self.states.append((subscription.name, state, epoch, reason))

    def health(self, subscription: Subscription, health: Health, *, anew: bool = False) -> None:
        """Record the health of an endpoint."""
        self.healths.append((subscription.name, health))

    def hold(self, subscription: Subscription, until: float, *, anew: bool = False) -> None:
        """Record until when an endpoint asked to wait."""
        self.holds.append((subscription.name, until))

    def parked(self, row: ParkedRow) -> None:
        """Record a parked entry."""
        self.entries[row.id] = row

    def unparked(self, entry_id: str) -> None:
        """Record that an entry has left the parked queue."""
        self.entries.pop(entry_id, None)

    async def finish(self) -> None:
        """Do nothing: each record was kept at once."""


class MemoryHistory:
    """Keeps all rows. Implements ``ports.History``."""

    def __init__(self) -> None:
        self.rows: list[HistoryRow] = []

    def note(self, row: HistoryRow) -> None:
        """Keep a row."""
        self.rows.append(row)

    def note_arrival(self, event: Event, matched: int) -> None:
        """Keep the row of an arrival."""
        self.rows.append(received_row(event, matched))

    def note_delivery(
        self, event: Event, target: str, attempt: Attempt, answer: bytes | None, answer_type: str
    ) -> None:
        """Keep the row of a first attempt that delivered."""
        batch = HistoryBatch()
        batch.add_delivery(event, target, attempt, answer, answer_type)
        self.rows += batch


class MemoryHistoryStore:
    """Rows in memory, of a store that can be away, refuse rows, or lose the answer to a commit."""

    def __init__(self) -> None:
        self.rows: list[HistoryRow] = []
        self.numbers: set[int] = set()
        self.faults: list[str] = []  #: of the next writes: away | refuses | unheard; empty: none
        self.refused: set[str] = set()  #: ids of events whose rows it always refuses
        self.trims: list[tuple[Limits, float]] = []
        self.closed = False
        self.trimmed = asyncio.Event()  #: nothing is left to delete
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, number: int, batch: HistoryBatch) -> None:
        """Write a batch, or fail as asked."""
        await self.gate.wait()
        fault = self.faults.pop(0) if self.faults else ""
        refuses = fault == "refuses" or not self.refused.isdisjoint(each.event_id for each in batch)
        if refuses and fault != "away" and number not in self.numbers:
            raise ValueError("history.db: a NUL")
        if fault != "away" and number not in self.numbers:
            self.numbers.add(number)
            self.rows += batch
        if fault in ("away", "unheard"):
            raise StoreUnavailable("history.db: the disk is full")

    async def trim(self, limits: Limits, now: float) -> bool:
        """Note the call; the third one finds nothing left."""
        self.trims.append((limits, now))
        if len(self.trims) == 3:
            self.trimmed.set()
        return len(self.trims) < 3

    async def steps(self, query: Query) -> Sequence[StoredStep]:
        """Return nothing: the writer reads no rows."""
        raise NotImplementedError(query)

    async def close(self) -> None:
        """Note it."""
        self.closed = True


class MemorySettled:
    """Knows the settled events of a history at once. Implements ``ports.SettledEvents``."""

    def __init__(self, history: MemoryHistory) -> None:
        self._history = history
        self.asked = 0

    async def knows(self, event: Event) -> bool:
        """Return whether the history has a settled row of the event."""
        self.asked += 1
        key = (event.id, event.tenant, event.type)
        rows = (row for row in self._history.rows if row.step == HistoryStep.SETTLED)
        return any((row.event_id, row.tenant, row.type) == key for row in rows)
