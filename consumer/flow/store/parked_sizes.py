"""Read from the index how many entries are parked now, by tenant.

Data flow: index of parked entries -> :meth:`ParkedSizes.look` -> Observer, and the notices to tenants. While
the store cannot be read, the gauges keep their values.

Source: S1-6 (an alert at 50 parked entries of one tenant).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from consumer.core.errors import LeveretError
from consumer.flow.observe.observer import Observer
from consumer.parked_ports import ParkedIndex

EVERY_S = 15.0  #: Prometheus rarely scrapes more often


class ParkedSizes:
    """Looks into the index of parked entries."""

    def __init__(
        self, index: ParkedIndex, observe: Observer, take: Callable[[Mapping[str, int]], Awaitable[None]]
    ) -> None:
        """Bind to an index.

        Args:
            index: Counts the entries.
            observe: Has the gauges.
            take: Takes the same counts, for the notices to tenants.
        """
        self._index = index
        self._observe = observe
        self._take = take

    async def run(self) -> None:
        """Look until cancelled; a store that cannot be read, or a bug here, stops no delivery."""
        while True:
            try:
                await self.look()
            except Exception as error:
                self._observe.task_failed("parked sizes", error)
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Bring the gauges up to date once, and pass the counts on."""
        try:
            sizes = await self._index.parked_sizes()
        except (LeveretError, OSError) as error:
            self._observe.store_failed("read", error)
        else:
            self._observe.tenants_parked(sizes)
            await self._take(sizes)
