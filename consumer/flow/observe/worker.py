"""Report what this worker holds, and how many workers there are. Part of the Observer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from consumer.flow.observe.reporter import Reporter


class Holdings(NamedTuple):
    """What one worker holds at one moment."""

    requests: int  #: in flight
    held_bytes: int  #: of messages in hand
    by_source: Mapping[str, int]  #: messages in hand and not started
    lag_s: float  #: the worst of the last minute
    log_dropped: int  #: lines, since the start
    ready: bool


class WorkerReporter(Reporter):
    """What concerns the worker as a whole."""

    def holds(self, holdings: Holdings) -> None:
        """Bring the gauges up to date that follow what the worker holds."""
        series = self._series
        series.ready.set(holdings.ready)
        series.in_flight.set(holdings.requests)
        series.held_bytes.set(holdings.held_bytes)
        series.loop_lag.set(holdings.lag_s)
        series.log_dropped.reach(holdings.log_dropped)
        for source, count in holdings.by_source.items():
            series.window.labels(source).set(count)

    def workers_counted(self, workers: int) -> None:
        """So many workers live, this one included."""
        self._series.workers.set(workers)

    def operators_informed(self) -> None:
        """An operational event was published."""
        self._series.ops_events.inc()
