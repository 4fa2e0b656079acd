"""Keep subscriptions in memory: loaded from the store, matched against events, kept when the store fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from consumer.core.errors import LeveretError
from consumer.core.store.tombstone import Tombstone
from consumer.core.subscription.match import Matcher
from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.observer import Observer
from consumer.flow.store.trust import Trust
from consumer.ports import Recorder, Store

INDEXED_AT_ONCE = 500
"""More patterns than these are indexed in a thread: 10,000 take 50 ms, and nothing is sent meanwhile."""

TOMBSTONES_MAX = 10_000
"""Answers about tombstones that are kept until the next load."""


class Subscriptions:
    """The subscriptions that delivery reads; the store may be away.

    Attributes:
        owing: Set when a subscription was disabled that :meth:`settle` has to write, or the store has to be
            compared soon.
        trust: The trust in the store.
    """

    def __init__(
        self,
        store: Store,
        observe: Observer,
        record: Recorder,
        trust: Trust,
        on_switched: Callable[[Subscription], None],
    ) -> None:
        """Know no subscription yet.

        Args:
            store: Where they are.
            observe: Takes reports.
            record: Takes which endpoints are disabled.
            trust: The trust in the store.
            on_switched: Called with each subscription that was enabled or disabled elsewhere, as it is now.
        """
        self._store = store
        self._on_switched = on_switched
        self.trust = trust
        self._tombstones: dict[str, Tombstone | None] = {}  #: of ids that were asked for since the last load
        self._observe = observe
        self._record = record
        self._matcher = Matcher(())
        self._all: dict[str, Subscription] = {}
        self._tenants: dict[str, None] = {}  #: that have subscriptions, in the order of their names
        self._loading = asyncio.Lock()
        self._wrong = False  #: the last load met an invalid row
        self.owing = asyncio.Event()
        observe.names_from(self.get)
        self._owed: dict[str, tuple[str, str]] = {}  #: disabled here, not in the store yet: URL and reason

    async def reload(self) -> bool:
        """Read the store again; return whether memory was replaced.

        On an error, and where the store is not the one that the broker knows, memory stays as it is.
        """
        async with self._loading:
            try:
                subscriptions = await self._store.load()
            except (LeveretError, OSError) as error:
                self._observe.reload_failed(error)
                self._wrong = True
                await self.trust.without_store(error)
                return False
            self._wrong = False
            self._observe.store_worked("read")
            lineage = self._store.lineage
            if not await self.trust.admits(lineage, self.stale):
                return False
            await self._take(subscriptions)
            self.trust.taken(lineage)
        return True

    def ask(self) -> None:
        """Ask for a comparison of the store with the broker's record at once."""
        self.trust.ask()
        self.owing.set()

    async def compare(self) -> None:
        """Compare the store in memory once more with the broker's record."""
        async with self._loading:
            lineage = self._store.lineage
            if self.trust.is_taken(lineage) and await self.trust.admits(lineage, self.stale):
                self.trust.taken(lineage)

    async def stale(self) -> bool:
        """Return whether the store differs from memory; False while it is away."""
        try:
            changed = await self._store.changed()
        except (LeveretError, OSError) as error:
            self._observe.store_failed("read", error)
            await self.trust.without_store(error)
            return False
        if not self._wrong:
            self._observe.store_worked("read")
            if not changed:
                self.trust.seen()
        return changed

    def notes(self) -> Sequence[str]:
        """Return faults that stop nothing; without names, since everybody may read them."""
        words = {"read": "read", "write": "written"}
        notes = [f"the store cannot be {words[step]}; see the log" for step in self._observe.store_faults]
        locked = [s for s in self._all.values() if s.locked is not None]
        sealed = sum(not s.keys for s in locked)
        if sealed:
            notes.append(f"locked subscriptions, their secrets cannot be decrypted: {sealed}; see the log")
        if len(locked) > sealed:
            count = len(locked) - sealed
            notes.append(f"locked subscriptions, their retry policy is gone: {count}; see the log")
        held = sum(s.paused for s in self._all.values())
        if held:
            notes.append(f"paused subscriptions, nothing is sent to them: {held}; see `leveret pause`")
        return notes

    def ids(self) -> Collection[str]:
        """Ids of all subscriptions, enabled or not."""
        return self._all.keys()

    def tenants(self) -> int:
        """Return how many tenants have subscriptions."""
        return len(self._tenants)

    def match(self, tenant: str, event_type: str) -> Sequence[Subscription]:
        """Return the enabled subscriptions of *tenant* that want *event_type*."""
        return self._matcher.match(tenant, event_type)

    def get(self, subscription_id: str) -> Subscription | None:
        """Return a subscription, enabled or not; None where none has this id."""
        return self._all.get(subscription_id)

    async def tombstone(self, subscription_id: str) -> Tombstone | None:
        """Return when and by whom a subscription was deleted; None where the store has no such record."""
        known = self._tombstones
        if self.doubted():  # it may have been made anew since
            return None
        if subscription_id in known:
            return known[subscription_id]
        try:
            found = await self._store.tombstone(subscription_id)
        except (LeveretError, OSError) as error:
            self._observe.store_failed("read", error)
            return None
        if len(known) < TOMBSTONES_MAX:
            known[subscription_id] = found
        return found

    def doubted(self) -> bool:
        """Return whether the store is not trusted now, or cannot be read."""
        return self.trust.reason is not None or "read" in self._observe.store_faults

    def gone(self) -> Sequence[Subscription]:
        """Return those that were disabled since they took nothing for days, and may be probed."""
        every = self._all.values()
        return [s for s in every if s.gone and not s.enabled and not s.paused and s.locked is None]

    async def has_moved(self, subscription: Subscription) -> bool:
        """Return whether a subscription has another URL by now, also where only the store has it yet."""
        if await self.stale():
            await self.reload()
        known = self._all.get(subscription.id)
        return known is not None and known.url != subscription.url

    def disable(self, subscription: Subscription, reason: str) -> None:
        """Disable a subscription, in memory at once; :meth:`settle` writes that to the store.

        Nothing happens where the subscription has another URL by now: the old URL answered.
        """
        known = self._all.get(subscription.id)
        if known is None or not known.enabled or known.url != subscription.url:
            return
        off = self._all[known.id] = replace(known, enabled=False, disabled_itself=True)
        self._matcher = self._matcher.without(off)
        self._observe.endpoint_disabled(known, reason)
        self._record.endpoint(known, "disabled", epoch=0, reason=reason)
        self._owed[known.id] = (known.url, reason)
        self.owing.set()

    async def settle(self) -> None:
        """Write disabled subscriptions to the store; later, while it is away or doubted."""
        if self.trust.reason is not None:
            return
        for subscription_id, (url, reason) in list(self._owed.items()):
            try:
                await self._store.disable(subscription_id, reason)
            except (LeveretError, OSError) as error:
                self._observe.store_failed("write", error)
                return
            self._observe.store_worked("write")
            if self._owed.get(subscription_id) == (url, reason):
                del self._owed[subscription_id]

    def _with_owed(self, loaded: Subscription) -> Subscription:
        """Keep a subscription disabled that was disabled here, until the store has that, or another URL."""
        url, _ = self._owed.get(loaded.id, ("", ""))
        if url == loaded.url:
            return replace(loaded, enabled=False, disabled_itself=True)
        self._owed.pop(loaded.id, None)
        return loaded

    async def _take(self, subscriptions: Sequence[Subscription]) -> None:
        """Replace memory; the cost is that of the changes, and matching goes on meanwhile."""
        before = self._all
        fresh: dict[str, Subscription] = {}
        changed: list[tuple[Subscription | None, Subscription]] = []
        for loaded in subscriptions:
            was = before.get(loaded.id)
            if was is not loaded:
                subscription = self._with_owed(loaded)
                if was is None or was != subscription:
                    changed.append((was, subscription))
                    was = subscription
            fresh[loaded.id] = was
        gone = before.keys() - fresh.keys()
        tenants = {s.tenant for _, s in changed} | {before[each].tenant for each in gone}
        changes = _of_tenants(fresh, tenants)
        if sum(len(s.events) for changed_to in changes.values() for s in changed_to) > INDEXED_AT_ONCE:
            matcher = await asyncio.to_thread(self._matcher.replace, changes)
        else:
            matcher = self._matcher.replace(changes)
        for late in [fresh[each] for each in list(self._owed) if each in fresh and fresh[each].enabled]:
            kept = fresh[late.id] = self._with_owed(late)  # it was disabled while the thread worked
            matcher = matcher if kept.enabled else matcher.without(kept)
        self._all, self._matcher, self._tombstones = fresh, matcher, {}
        self._tell(changed)

    def _tell(self, changed: Sequence[tuple[Subscription | None, Subscription]]) -> None:
        """Report what changed.

        Args:
            changed: Each changed subscription: before (None for a new one), and as it was loaded.
        """
        fresh = self._all
        switched = [
            now
            for was, now in changed
            if was is not None and now.enabled != was.enabled and fresh[now.id] is now
        ]
        for subscription in switched:
            if subscription.enabled:
                self._observe.endpoint_recovered(subscription)
        for _, subscription in changed:
            if subscription.locked is not None:
                self._observe.subscription_locked(subscription)
        tenants = dict.fromkeys([s.tenant for s in fresh.values()])
        self._observe.tenants_known([tenant for tenant in tenants if tenant not in self._tenants])
        self._tenants = tenants
        enabled = sum([s.enabled for s in fresh.values()])
        locked = sum([s.locked is not None for s in fresh.values()])
        self._observe.reloaded(enabled, len(fresh) - enabled, locked)
        self._observe.troubles.book.disabled([s.id for s in fresh.values() if s.disabled_itself])
        self._observe.secrets_end([end for s in fresh.values() for end in s.key_ends if end])
        for subscription in switched:
            self._on_switched(subscription)


def _of_tenants(
    subscriptions: Mapping[str, Subscription], tenants: Collection[str]
) -> dict[str, list[Subscription]]:
    """Return the subscriptions of each of *tenants*, in their order; an empty list where it has none."""
    found: dict[str, list[Subscription]] = {tenant: [] for tenant in tenants}
    for subscription in subscriptions.values():
        own = found.get(subscription.tenant)
        if own is not None:
            own.append(subscription)
    return found
