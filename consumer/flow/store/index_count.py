"""Count the parked messages by the store's index, for the gauge of parked entries.

Data flow: index -> :meth:`IndexCount.count` -> Observer, and the edge that counts the queue. The number is
unknown while the store cannot be read.
"""

from __future__ import annotations

from consumer.core.errors import LeveretError
from consumer.flow.observe.observer import Observer
from consumer.ports import ParkedMessages


class IndexCount:
    """Counts by the index."""

    def __init__(self, index: ParkedMessages, observe: Observer, *, is_kept: bool) -> None:
        """Bind to *index*; *is_kept*: whether the settings keep it at all."""
        self._index = index
        self._observe = observe
        self._is_kept = is_kept

    async def count(self) -> int | None:
        """Return the number of parked messages; None if it is unknown."""
        if not self._is_kept:
            return None
        try:
            found = await self._index.count_parked()
        except (LeveretError, OSError):  # other reads of the store report its faults
            return None
        self._observe.parked_indexed(found)
        return found
