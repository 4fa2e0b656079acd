"""The subscriptions in memory: loaded from the store, matched against events, kept when the store fails."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace

from consumer.core.errors import LeveretError
from consumer.core.match import Matcher
from consumer.core.subscription import Subscription
from consumer.flow.observe import Observer
from consumer.ports import Store


class Registry:
    """Delivery reads only this; the store may be away."""

    def __init__(self, store: Store, observe: Observer) -> None:
        self._store = store
        self._observe = observe
        self._matcher = Matcher(())
        self._all: dict[str, Subscription] = {}
        self._loading = asyncio.Lock()
        self._fault: str | None = None  #: of the last reload; the same one is logged once

    async def reload(self) -> bool:
        """Read the store again. On an error what is in memory stays; return whether it worked."""
        async with self._loading:
            try:
                subscriptions = await self._store.load()
            except (LeveretError, OSError) as error:
                self._observe.reload_failed(error, repeated=str(error) == self._fault)
                self._fault = str(error)
                return False
            self._fault = None
            self._take(subscriptions)
        return True

    def ids(self) -> Collection[str]:
        """Ids of all subscriptions, enabled or not."""
        return self._all.keys()

    def match(self, tenant: str, event_type: str) -> Sequence[Subscription]:
        """Return the enabled subscriptions of *tenant* that want *event_type*."""
        return self._matcher.match(tenant, event_type)

    def get(self, subscription_id: str) -> Subscription | None:
        """Return a subscription, enabled or not; None when it was deleted."""
        return self._all.get(subscription_id)

    async def disable(self, subscription: Subscription, reason: str) -> None:
        """Switch a subscription off, in memory at once and in the store."""
        known = self._all.get(subscription.id)
        if known is None or not known.enabled:
            return
        self._all[known.id] = replace(known, enabled=False)
        own = [s for s in self._all.values() if s.tenant == known.tenant]
        self._matcher = self._matcher.replace(known.tenant, own)
        self._observe.endpoint_disabled(known, reason)
        try:
            await self._store.disable(known.id, reason)
        except (LeveretError, OSError) as error:
            self._observe.reload_failed(error)

    def _take(self, subscriptions: Sequence[Subscription]) -> None:
        kept = {s.id: self._all.get(s.id) for s in subscriptions}
        fresh = {}
        for subscription in subscriptions:
            before = kept[subscription.id]
            fresh[subscription.id] = before if before == subscription and before is not None else subscription
        self._all = fresh
        self._matcher = Matcher(fresh.values())
        enabled = sum(s.enabled for s in fresh.values())
        self._observe.tenants_known(dict.fromkeys(s.tenant for s in fresh.values()))
        self._observe.reloaded(enabled, len(fresh) - enabled)
