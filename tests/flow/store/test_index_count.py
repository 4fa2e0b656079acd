"""The number of parked messages by the index, and when it is unknown."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry

from consumer.core.errors import StoreUnavailable
from consumer.flow.observe.observer import Observer
from consumer.flow.store.index_count import IndexCount
from metrics.series import Series
from tests.support.fakes import RecordingLog


class Index:
    """An index of seven messages that can be away."""

    def __init__(self) -> None:
        self.is_away = False

    async def count_parked(self) -> int:
        """Return 7."""
        if self.is_away:
            raise StoreUnavailable("a.db: is locked")
        return 7


async def test_an_index_that_cannot_be_read_is_unknown() -> None:
    """S1-6: the gauge keeps its value; without an index it shows nothing."""
    registry = CollectorRegistry()
    index, observe = Index(), Observer(Series(registry), RecordingLog())

    def shown() -> float | None:
        return registry.get_sample_value("leveret_parked_indexed_messages")

    assert await IndexCount(index, observe, is_kept=False).count() is None
    assert math.isnan(shown() or 0.0)
    counts = IndexCount(index, observe, is_kept=True)
    assert await counts.count() == 7
    index.is_away = True
    assert await counts.count() is None
    assert shown() == 7
