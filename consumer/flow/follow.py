"""Keep what is in memory as the store has it, and the store as memory has it.

Data flow: store -> :meth:`Follower.reload` -> Registry, Endpoints; what was disabled here -> store.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from consumer.flow.endpoints import Endpoints
from consumer.flow.observe import Observer
from consumer.flow.registry import Registry
from consumer.ports import Recorder, Store

POLL_S = 0.5  #: a change takes effect within a second
LAST_S = 3.0  #: at the end: what is owed to the store is written within this time, or not


class Follower:
    """The daemon's hold on the store.

    Attributes:
        loaded: Set once the subscriptions are known; before that no event may be taken.
    """

    def __init__(
        self, store: Store, registry: Registry, endpoints: Endpoints, record: Recorder, observe: Observer
    ) -> None:
        self._store = store
        self._registry = registry
        self._endpoints = endpoints
        self._record = record
        self._observe = observe
        self.loaded = asyncio.Event()
        registry.on_switched = endpoints.forgive

    async def run(self) -> None:
        """Follow for ever; a store that is away, or a bug here, stops no delivery."""
        while True:
            try:
                await self._look()
            except Exception as error:
                self._observe.task_failed("store", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._registry.owing.wait(), POLL_S)
            self._registry.owing.clear()  # what the store does not take is owed until the next look

    async def _look(self) -> None:
        if not self.loaded.is_set() or await self._registry.stale():
            await self.reload()
        elif self._registry.trust.due():
            if not self._registry.trust.is_taken(self._store.lineage):
                await self.reload()
            else:
                await self._registry.compare()
        await self._registry.settle()

    async def reload(self) -> None:
        """Take over what the store holds, if it can be read."""
        if await self._registry.reload():
            self._endpoints.keep(self._registry.ids())
            self.loaded.set()

    async def finish(self) -> None:
        """Write what is owed, unless the store is away, and close it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await self._registry.settle()
                await self._record.finish()
                await self._store.close()
