"""Keep the sums of the last hour and day in memory, and read only new rows of the history.

Data flow: history -> :meth:`ActivityFeed.current` -> :class:`Activity` -> services. Nothing is read while
nobody asks. A request waits a short time for the sums; after that it gets those that are there. At first, and
after a break with many new rows, the store itself sums up all rows, part by part, so that pages stay quick.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from consumer.core.errors import StoreUnavailable
from consumer.core.history.activity import HOUR_S, HOURS, Activity
from consumer.core.history.follow import OVERLAP_S, Follower
from consumer.core.history.records import Query
from consumer.core.history.sums import Part
from consumer.edges.history.history_store import SumReader
from consumer.ports import Clock
from consumer.web.shared.log import Log

FRESH_S: Final = 2.0  #: sums of this age are not brought up to date
WAIT_S: Final = 0.1  #: longest time that a request waits for sums
DAY_S: Final = HOURS * HOUR_S
ROWS: Final = 100  #: rows of one query: about 3 ms of the loop
FEW_ROWS: Final = 5_000  #: so many rows are read one by one at most, more are summed up by the store
BREAK_S: Final = 60.0  #: time without requests after which many rows may be new
PART_ROWS: Final = 50_000  #: rows that the store sums up at a time: about 0.2 s
SUMS: Final = 500  #: sums that are added before the event loop runs again: about 1 ms


@dataclass(slots=True)
class _Summing:
    """A summing that has begun; after an error it goes on where it was, with smaller parts."""

    numbers: range  #: of the rows that are left
    hour_from: int  #: number from which rows can be of the last hour
    activity: Activity = field(default_factory=Activity)
    part_rows: int = PART_ROWS

    def next_part(self, now: float) -> Part:
        """Return the next rows to sum up."""
        first, last = self.numbers[0], self.numbers[: self.part_rows][-1]
        return Part(first, last, now - HOUR_S, now - DAY_S, has_hour=last >= self.hour_from)

    def done(self, part: Part) -> None:
        """Note that a part was added."""
        self.numbers = range(part.last + 1, self.numbers.stop)

    def failed(self) -> None:
        """Take smaller parts: the store may have needed too long."""
        self.part_rows = max(FEW_ROWS, self.part_rows // 2)


class ActivityFeed:
    """Sums of one history."""

    def __init__(self, history: SumReader, clock: Clock, log: Log) -> None:
        """Take over a reader of its own; nothing is read yet."""
        self._history = history
        self._clock = clock
        self._log = log
        self._activity = Activity()
        self._follower: Follower | None = None  #: None until the first rows were summed up
        self._summing: _Summing | None = None
        self._is_complete = False
        self._read_at: float | None = None  #: monotonic seconds
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the whole history was read once; until then the sums are too small."""
        return self._is_complete

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
        if self._is_after_break():
            self._summing = None  # what it left out would be read row by row
        try:
            if self._follower is None or await self._is_far_behind(self._follower):
                self._follower, self._is_complete = None, False
                self._follower = await self._sum_up()
            await self._add_new(self._follower)
            self._is_complete = True
        except (StoreUnavailable, ValueError) as error:
            if self._summing is not None:
                self._summing.failed()
            self._log.warning("api.activity_failed", error=str(error))
        self._activity.forget(self._clock.now())
        self._read_at = self._clock.monotonic()

    def _is_after_break(self) -> bool:
        return self._read_at is not None and self._clock.monotonic() - self._read_at >= BREAK_S

    async def _is_far_behind(self, follower: Follower) -> bool:
        if not self._is_after_break():
            return False
        numbers = await self._history.numbers(self._clock.now())
        return numbers.stop - follower.after > FEW_ROWS

    async def _sum_up(self) -> Follower:
        """Let the store sum up its rows of the last day; return where the rest begins."""
        if self._summing is None:
            now = self._clock.now()
            numbers = await self._history.numbers(now - DAY_S)
            if len(numbers) <= FEW_ROWS:
                self._activity = Activity()
                return Follower(numbers.start - 1)
            hour = await self._history.numbers(now - HOUR_S)
            await asyncio.sleep(OVERLAP_S)  # each of these rows is committed then, see Follower
            self._summing = _Summing(numbers, hour.start)
        summing, last = self._summing, self._summing.numbers.stop - 1
        while summing.numbers:
            await self._add_part(summing)
        self._activity, self._summing = summing.activity, None
        return Follower(last)

    async def _add_part(self, summing: _Summing) -> None:
        part = summing.next_part(self._clock.now())
        sums = await self._history.sums(part)
        while some := list(islice(sums, SUMS)):
            for each in some:
                summing.activity.add_sum(each)
            await asyncio.sleep(0)
        summing.done(part)

    async def _add_new(self, follower: Follower) -> None:
        """Add the rows that are not in the sums yet."""
        after, oldest = follower.after, self._clock.now() - DAY_S
        while True:
            steps = await self._history.steps(Query(after=after, limit=ROWS, light=True))
            for step in follower.fresh(steps):
                if step.row.at >= oldest:
                    self._activity.add(step.seq, step.row)
            after = steps[-1].seq if steps else after
            if len(steps) < ROWS:
                break
        follower.looked(self._clock.monotonic(), after)

    async def close(self) -> None:
        """Stop reading, and close the history."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        await self._history.close()
