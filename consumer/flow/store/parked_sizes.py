"""Read from the index how many entries are parked now, by tenant and by subscription.

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
        self,
        index: ParkedIndex,
        observe: Observer,
        take: Callable[[Mapping[str, int]], Awaitable[None]],
        *,
        is_kept: bool = True,
    ) -> None:
        """Bind to an index.

        Args:
            index: Counts the entries.
            observe: Has the gauges.
            take: Takes the counts by tenant, for the notices to tenants.
            is_kept: The settings keep the index.
        """
        self._index = index
        self._observe = observe
        self._take = take
        self._is_kept = is_kept

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
            counts = await self._index.parked_counts()
        except (LeveretError, OSError) as error:
            self._observe.store_failed("read", error)
        else:
            self._observe.tenants_parked(counts.by_tenant)
            self._observe.troubles.book.parked(counts.by_subscription)
            if self._is_kept:
                self._observe.parked_counted(counts.total, counts.oldest_at)
            await self._take(counts.by_tenant)
