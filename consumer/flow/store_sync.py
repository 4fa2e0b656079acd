"""Keep the subscriptions in memory and those in the store the same.

Data flow: store -> :meth:`StoreSync.reload` -> Subscriptions, Endpoints; disabled here -> store.
One routine loads; requests that come during a load, or soon after it, become one further load.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.observe.observer import Observer
from consumer.flow.store.subscriptions import Subscriptions
from consumer.ports import Recorder, Store

POLL_S = 0.5  #: a change takes effect within a second
GAP_S = 0.2  #: from the end of one look to the next, at least: requests within this time become one
LAST_S = 3.0  #: at the end: the longest time for writing disabled subscriptions to the store


class StoreSync:
    """The routine that follows the store.

    Attributes:
        loaded: Set once the subscriptions are known; before that no event may be taken.
    """

    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        endpoints: Endpoints,
        record: Recorder,
        observe: Observer,
    ) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._endpoints = endpoints
        self._record = record
        self._observe = observe
        self.loaded = asyncio.Event()
        self._asked = False  #: somebody asked for a load

    async def run(self) -> None:
        """Follow for ever; a store that is away, or a bug here, stops no delivery."""
        while True:
            try:
                await self._look()
            except Exception as error:
                self._observe.task_failed("store", error)
            await asyncio.sleep(GAP_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._subscriptions.owing.wait(), POLL_S - GAP_S)
            self._subscriptions.owing.clear()  # changes that the store does not take are tried again later

    async def _look(self) -> None:
        asked, self._asked = self._asked, False
        if asked or not self.loaded.is_set() or await self._subscriptions.stale():
            await self.reload()
        elif self._subscriptions.trust.due():
            if not self._subscriptions.trust.is_taken(self._store.lineage):
                await self.reload()
            else:
                await self._subscriptions.compare()
        await self._subscriptions.settle()

    async def reload(self) -> None:
        """Load the subscriptions, if the store can be read."""
        if await self._subscriptions.reload():
            self._endpoints.keep(self._subscriptions.ids())
            self.loaded.set()

    def reload_soon(self) -> None:
        """Ask for a load, which begins within :data:`GAP_S`; return at once."""
        self._asked = True
        self._subscriptions.owing.set()

    async def finish(self) -> None:
        """Write the disabled subscriptions, unless the store is away, and close it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await self._subscriptions.settle()
                await self._record.finish()
                await self._store.close()
