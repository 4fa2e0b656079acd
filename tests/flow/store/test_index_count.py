"""The number of parked messages by the index, and when it is unknown."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry

from consumer.core.errors import StoreUnavailable
from consumer.flow.observe.observer import Observer
from consumer.flow.store.index_count import GAP_LOOKS, IndexCount
from metrics.series import Series
from tests.support.fakes import RecordingLog


class Index:
    """An index of seven messages that can be away."""

    def __init__(self) -> None:
        self.is_away = False
        self.count = 7

    async def count_parked(self) -> int:
        """Return 7, unless a test changed it."""
        if self.is_away:
            raise StoreUnavailable("a.db: is locked")
        return self.count


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


class Watched:
    """An index that is compared with a queue."""

    def __init__(self) -> None:
        self.index, self.log = Index(), RecordingLog()
        observe = Observer(Series(CollectorRegistry()), self.log)
        self.counts = IndexCount(self.index, observe, is_kept=True)

    async def look(self, queued: int, indexed: int, times: int = 1) -> int:
        """Look; return how often a difference was reported so far."""
        self.index.count = indexed
        for _ in range(times):
            await self.counts.count()
            self.counts.queues_sized({"parked": queued}, 0.0)
        return len(self.log.events("parked.index_differs"))


async def test_a_gap_that_stays_is_reported_once_with_its_remedy() -> None:
    """S1-6: after a minute, and again only after the index was whole."""
    watched = Watched()

    assert await watched.look(9, 7, GAP_LOOKS - 1) == 0
    assert await watched.look(9, 7, 20) == 1
    assert await watched.look(9, 9) == 1
    assert await watched.look(9, 12, GAP_LOOKS) == 2
    [line, _] = watched.log.events("parked.index_differs")
    assert (line["indexed"], line["queued"]) == (7, 9)
    assert "leveret parked reindex" in str(line["detail"])


async def test_an_index_that_follows_the_queue_has_no_gap() -> None:
    """Entries are parked or replayed all the time, and the index is a second behind."""
    watched = Watched()
    for queued in (*range(0, 5_000, 100), *range(5_000, 0, -100)):
        lag = 10 if watched.index.count <= queued else -10
        assert await watched.look(queued, max(queued - lag, 0)) == 0


async def test_without_a_count_nothing_is_compared() -> None:
    """The store or the broker may be away for long."""
    watched = Watched()
    watched.index.is_away = True
    assert await watched.look(9, 7, 2 * GAP_LOOKS) == 0
    for _ in range(2 * GAP_LOOKS):
        watched.counts.queues_sized({}, 0.0)
    assert watched.log.events("parked.index_differs") == []
