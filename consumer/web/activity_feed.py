"""Keep the sums of the last hour in memory, and read only new rows of the history.

Data flow: history -> :meth:`ActivityFeed.current` -> :class:`Activity` -> services. Nothing is read while
nobody asks. A request waits a short time for the sums; after that it gets those that are there. The first
reading goes through a day of rows, in small queries with pauses, so that pages stay quick meanwhile.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

from consumer.core.errors import StoreUnavailable
from consumer.core.history.activity import HOUR_S, HOURS, Activity
from consumer.core.history.follow import Follower
from consumer.core.history.records import Query
from consumer.edges.store.history.history_store import HistoryReader
from consumer.ports import Clock
from consumer.web.shared.log import Log

FRESH_S: Final = 2.0  #: sums of this age are not brought up to date
WAIT_S: Final = 0.1  #: longest time that a request waits for sums
ROWS: Final = 100  #: rows of one query: about 3 ms of the loop
PAUSE_MAX_S: Final = 0.05  #: longest pause within the first reading; usually twice the query's time
LOOKS: Final = 250  #: queries after which old rows are forgotten, while many are read


class ActivityFeed:
    """Sums of one history."""

    def __init__(self, history: HistoryReader, clock: Clock, log: Log) -> None:
        """Take over a reader of its own; nothing is read yet."""
        self._history = history
        self._clock = clock
        self._log = log
        self._activity = Activity()
        self._follower: Follower | None = None
        self._read_at: float | None = None  #: monotonic seconds
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the whole history was read once; until then the sums are too small."""
        return self._read_at is not None

    async def current(self) -> Activity:
        """Return the sums, at most some seconds old while requests come; less while they are first read."""
        is_first_reading = self._reading is not None and not self.is_complete
        if self._reading is None and not self._is_fresh():
            self._reading = asyncio.create_task(self._read(), name="activity")
            self._reading.add_done_callback(self._ended)
        if self._reading is not None and not is_first_reading:  # else a request before waited in vain
            await asyncio.wait({self._reading}, timeout=WAIT_S)
        return self._activity

    def _is_fresh(self) -> bool:
        return self._read_at is not None and self._clock.monotonic() - self._read_at < FRESH_S

    def _ended(self, reading: asyncio.Task[None]) -> None:
        self._reading = None
        if not reading.cancelled() and (error := reading.exception()) is not None:
            self._log.error("api.activity_broken", exc_info=error)

    async def _read(self) -> None:
        """Add every new row. If the history is away, the sums stay as they are."""
        try:
            await self._add_new()
        except (StoreUnavailable, ValueError) as error:
            self._log.warning("api.activity_failed", error=str(error))
        self._activity.forget(self._clock.now())
        self._read_at = self._clock.monotonic()

    async def _add_new(self) -> None:
        after = 0 if self._follower is None else self._follower.after
        for number in count(1):
            began = self._clock.monotonic()
            since = 0.0 if after else self._clock.now() - HOURS * HOUR_S
            steps = await self._history.steps(Query(after=after, since=since, limit=ROWS, light=True))
            if not steps:
                return
            after = steps[-1].seq
            if self._follower is None:
                self._follower = Follower(steps[0].seq - 1)
            for step in self._follower.fresh(steps):
                self._activity.add(step.seq, step.row)
            is_last = len(steps) < ROWS
            if is_last or number % LOOKS == 0:
                self._follower.looked(self._clock.monotonic(), after)
                self._activity.forget(self._clock.now())
            if is_last:
                return
            if not self.is_complete:
                await asyncio.sleep(min(PAUSE_MAX_S, 2 * (self._clock.monotonic() - began)))

    async def close(self) -> None:
        """Stop reading, and close the history."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        await self._history.close()
