"""Count the parked messages by the store's index, for the gauge of parked entries, and report a gap.

Data flow: index -> :meth:`IndexCount.count` -> Observer, and the edge that counts the queue; its count of the
queue -> :meth:`IndexCount.queues_sized`. The number is unknown while the store cannot be read.

The index follows the queue by about a second. So it agrees if its number is between those of the queue at
this look and at the one before, 10 s earlier. After a worker was killed it may differ until
``leveret parked reindex``.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.core.errors import LeveretError
from consumer.flow.observe.observer import Observer
from consumer.ports import ParkedMessages

GAP_LOOKS = 6  #: looks in a row, 10 s apart, after which a difference is no lag
PARKED = "parked"  #: label of the queue of parked entries


class IndexCount:
    """Counts by the index. Implements :class:`consumer.ports.QueueDepths`."""

    def __init__(self, index: ParkedMessages, observe: Observer, *, is_kept: bool) -> None:
        """Bind to *index*; *is_kept*: whether the settings keep it at all."""
        self._index = index
        self._observe = observe
        self.is_kept = is_kept
        self._found: int | None = None  #: by the index at the last look
        self._queued: int | None = None  #: in the queue at the last look
        self._differing = 0  #: looks in a row

    async def count(self) -> int | None:
        """Return the number of parked messages; None if it is unknown."""
        self._found = None
        if not self.is_kept:
            return None
        try:
            self._found = await self._index.count_parked()
        except (LeveretError, OSError):  # other reads of the store report its faults
            return None
        self._observe.parked_indexed(self._found)
        return self._found

    def queues_sized(self, totals: Mapping[str, int], now: float) -> None:
        """Compare the index with the queue; a difference that stays is reported once."""
        queued, found = totals.get(PARKED), self._found
        if queued is None or found is None:
            return
        before, self._queued = self._queued, queued
        ends = (queued, queued if before is None else before)
        self._differing = 0 if min(ends) <= found <= max(ends) else self._differing + 1
        if self._differing == GAP_LOOKS:
            self._observe.parked_index_differs(found, queued)
