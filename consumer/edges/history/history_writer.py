"""Write rows of the history beside the deliveries, and delete old ones.

Data flow: flow -> :meth:`HistoryWriter.note` (in memory, bounded) -> a batch each quarter second, later
while the loop lags -> store.
While the store is away, a batch is tried until it is written, and rows gather up to the bounds. A row that
finds no room is dropped and counted, and so is each row that is left at the end: each row is either written
or counted. A batch that the store refuses is halved until only the refused rows are left out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from consumer.core.errors import LeveretError
from consumer.core.history.batch import HistoryBatch
from consumer.core.history.records import ANSWER_BYTES, DETAIL_MAX, HistoryRow
from consumer.core.model import Attempt, Event
from consumer.edges.history.history_store import HistoryTarget, Limits
from consumer.edges.store.back_off import BackOff
from consumer.ports import HistoryReports

GATHER_S: Final = 0.25  #: time for which rows are gathered into one batch
TICKS: Final = 10  #: looks at the lag of the loop in that time
LATE_S: Final = 0.005  #: lag of a busy loop
PATIENCE_S: Final = 2.0  #: longest time for which a busy loop puts off a batch
BATCH_ROWS: Final = 5_000  #: rows of one transaction; the more, the less often a page of an index is written
BATCH_S: Final = 60.0  #: longest time in which a batch takes rows: readers find a time by the rows' order
ROWS_MAX: Final = 20_000  #: rows in memory
BYTES_MAX: Final = 16 * 1024 * 1024  #: bytes of the answers and details in memory, at most
TRIM_EVERY_S: Final = 30.0  #: time between two searches for old rows
TRIM_PAUSE_S: Final = 0.05  #: time between two transactions that delete
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0
FINISH_S: Final = 3.0  #: longest time at the end of the worker in which rows are still written
FINISH_FAILURES: Final = 2  #: failed writes in that time; after the end of a child only the first one fails


class HistoryWriter:
    """Implements :class:`consumer.ports.History`."""

    def __init__(
        self,
        store: HistoryTarget,
        limits: Limits,
        observe: HistoryReports,
        now: Callable[[], float],
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        """Bind to a store; nothing is opened yet.

        Args:
            store: Target of the batches.
            limits: The age and the number of rows that the store keeps.
            observe: Reports faults and dropped rows.
            now: Returns Unix seconds.
            answer_bytes: Longest answer of a row; the longer it may be, the fewer rows are kept in memory.
        """
        self._store = store
        self._limits = limits
        self._observe = observe
        self._now = now
        self._batches: deque[HistoryBatch] = deque()  #: the newest one still takes rows
        self._newest_since = 0.0  #: when the first row of the newest one came, in monotonic seconds
        self.monotonic: Callable[[], float] = time.monotonic
        self._held = 0  #: rows of all these batches
        self._rows_max = min(ROWS_MAX, BYTES_MAX // (answer_bytes + DETAIL_MAX))
        #: rows of a batch, in memory beside the others
        self._batch_rows = min(BATCH_ROWS, self._rows_max // 4)
        self._parts: list[HistoryBatch] = []  #: of the batch that is being written, the next one last
        self._number = 1  #: of the next part
        self._work = asyncio.Event()
        self._trim_at = 0.0  #: monotonic seconds

    def note(self, row: HistoryRow) -> None:
        """Take *row*; drop and count it if there is no room."""
        batch = self._batch()
        if batch is not None:
            batch.add(row)
            self._held += 1

    def note_arrival(self, event: Event, matched: int) -> None:
        """Take the arrival of an event, as :meth:`note` does."""
        batch = self._batch()
        if batch is not None:
            batch.add_arrival(event, matched)
            self._held += 1

    def note_delivery(
        self, event: Event, target: str, attempt: Attempt, answer: bytes | None, answer_type: str
    ) -> None:
        """Take a first attempt that delivered, as :meth:`note` does."""
        batch = self._batch()
        if batch is not None:
            self._held += batch.add_delivery(event, target, attempt, answer, answer_type)

    def _batch(self) -> HistoryBatch | None:
        """Return the batch that takes the next row; without room, count a dropped row and return None."""
        if self._held >= self._rows_max:
            self._observe.history_dropped("full", 1)
            return None
        batches, now = self._batches, self.monotonic()
        if not batches or len(batches[-1]) >= self._batch_rows or now - self._newest_since > BATCH_S:
            batches.append(HistoryBatch())
            self._newest_since = now
            self._work.set()
        return batches[-1]

    async def run(self) -> None:
        """Write batches and delete old rows until cancelled."""
        loop, back_off = asyncio.get_running_loop(), BackOff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._trim_at = loop.time()
        while True:
            await self._wait(self._trim_at - loop.time())
            try:
                worked = await self._write_all() and await self._trim(loop)
            except Exception as error:  # a bug must not stop deliveries
                self._observe.task_failed("history", error)
                worked = False
            if worked:
                back_off.worked()
            else:
                await back_off.failed()

    async def finish(self) -> None:
        """Write the remaining rows for a bounded time, count the others, and close the store."""
        try:
            async with asyncio.timeout(FINISH_S):
                failures = 0
                while (self._parts or self._batches) and failures < FINISH_FAILURES:
                    failures += not await self.flush()
        except TimeoutError:
            pass
        while self._batches:
            self._parts.append(self._take())
        left = sum(map(len, self._parts))
        if left:
            self._observe.history_dropped("stopped", left)
        self._parts.clear()
        try:
            async with asyncio.timeout(FINISH_S):
                await self._store.close()
        except (LeveretError, OSError) as error:
            self._observe.history_failed(error)

    async def flush(self) -> bool:
        """Write one batch; return False if the store could not take it, and keep its rest."""
        parts = self._parts
        if not parts:
            if not self._batches:
                return True
            parts.append(self._take())
        refused = 0
        while parts:
            try:
                await self._store.write(self._number, parts[-1])
            except ValueError as error:  # some of these rows would be refused for ever
                refused += self._halve(error)
            except (LeveretError, OSError) as error:
                self._observe.history_failed(error)
                return False
            else:
                parts.pop()
            self._number += 1
        if not refused:
            self._observe.history_worked()
        return True

    def _halve(self, error: ValueError) -> int:
        """Replace the refused part by its halves, or drop its only row; return how many were dropped."""
        rows = list(self._parts.pop())
        if len(rows) > 1:
            middle = len(rows) // 2
            self._parts += [HistoryBatch(rows[middle:]), HistoryBatch(rows[:middle])]
            return 0
        self._observe.history_failed(error)
        self._observe.history_dropped("refused", 1)
        return 1

    def _take(self) -> HistoryBatch:
        batch = self._batches.popleft()
        self._held -= len(batch)
        if not self._batches:
            self._work.clear()
        return batch

    async def _wait(self, trim_s: float) -> None:
        """Return when there are rows to write, or after *trim_s*; rows are gathered first."""
        if self._parts:
            return  # the store was away: the pause after that was enough
        if trim_s <= TRIM_PAUSE_S:
            await asyncio.sleep(TRIM_PAUSE_S)
            return
        try:
            async with asyncio.timeout(trim_s):
                await self._work.wait()
        except TimeoutError:
            return
        await self._gather()

    async def _gather(self) -> None:
        """Return after a quarter second, or later while the loop lags: deliveries come first then.

        The memory of rows stays half free, and no row waits longer than :data:`PATIENCE_S`.
        """
        loop = asyncio.get_running_loop()
        deadline, busy = loop.time() + PATIENCE_S, True
        while busy and self._held < self._rows_max // 2 and loop.time() < deadline:
            busy = False
            for _ in range(TICKS):
                wake_at = loop.time() + GATHER_S / TICKS
                await asyncio.sleep(GATHER_S / TICKS)
                busy |= loop.time() - wake_at > LATE_S

    async def _write_all(self) -> bool:
        while await self.flush():
            if len(self._batches) <= 1 and self._held < self._batch_rows:
                return True
        return False

    async def _trim(self, loop: asyncio.AbstractEventLoop) -> bool:
        if loop.time() < self._trim_at:
            return True
        try:
            more = await self._store.trim(self._limits, self._now())
        except (LeveretError, OSError) as error:
            self._observe.history_failed(error)
            return False
        if not more:
            self._trim_at = loop.time() + TRIM_EVERY_S
        return True
