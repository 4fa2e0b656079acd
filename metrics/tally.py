"""Counters for the path of every request: they add in memory, and to their series before a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import Counter
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Tally:
    """A counter for the path of every request: it adds in memory, and to its series before a scrape."""

    __slots__ = ("_child", "_settled", "count")

    def __init__(self, child: Counter) -> None:
        self._child = child
        self._settled = 0
        self.count = 0  #: since the start

    def inc(self) -> None:
        """Count one."""
        self.count += 1

    def reach(self, count: int) -> None:
        """Set the count to one that is kept elsewhere."""
        self.count = count

    def settle(self) -> None:
        """Add the counts since the last call to the series."""
        if self.count != self._settled:
            self._child.inc(self.count - self._settled)
            self._settled = self.count


class Settler(Collector):
    """Registered before every series, so that each scrape finds them up to date."""

    def __init__(self) -> None:
        self.tallies: list[Tally] = []
        self.steps: list[Callable[[], None]] = []

    def collect(self) -> Iterable[Metric]:
        """Run all steps and settle all tallies; this collector has no series of its own."""
        for step in self.steps:
            step()
        for tally in self.tallies:
            tally.settle()
        return ()
