"""Report on the worker as a whole. Part of the Observer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from consumer.flow.observe.reporter import Reporter
from metrics.series import Series


class Holdings(NamedTuple):
    """The load of one worker at one moment."""

    requests: int  #: in flight
    held_bytes: int  #: of messages in hand
    by_source: Mapping[str, int]  #: messages in hand and not started
    bytes_by_source: Mapping[str, int]  #: of messages in hand
    lag_s: float  #: worst lag of the event loop in the last minute
    log_dropped: int  #: lines, since the start
    ready: bool


class WorkerReporter(Reporter):
    """Reports on requests, windows, lag, spans, and the number of workers.

    Implements :class:`consumer.tracing_ports.TracingReports`.
    """

    def __init__(self, series: Series, log: Any) -> None:
        super().__init__(series, log)
        self._export_fails = False
        self._export_faults = self._fault_log()

    def holds(self, holdings: Holdings) -> None:
        """Bring the gauges of one worker up to date."""
        series = self._series
        series.ready.set(holdings.ready)
        series.in_flight.set(holdings.requests)
        series.held_bytes.set(holdings.held_bytes)
        series.loop_lag.set(holdings.lag_s)
        series.log_dropped.reach(holdings.log_dropped)
        for source, count in holdings.by_source.items():
            series.window.labels(source).set(count)
        for source, size_bytes in holdings.bytes_by_source.items():
            series.window_bytes.labels(source).set(size_bytes)

    def began(self, version: str, python: str) -> None:
        """Show the versions of Leveret and Python."""
        self._series.build.info({"version": version, "python": python})

    def certificates_read(self, ends: Mapping[str, float], faults: Mapping[str, str]) -> None:
        """Show when our own certificates end, in Unix seconds by label; warn of files with *faults*."""
        for label, end in ends.items():
            self._series.certificate_expiry.labels(label).set(end)
        for label, fault in faults.items():
            self._log.warning("certificate.unreadable", certificate=label, detail=fault)

    def workers_counted(self, workers: int) -> None:
        """Show how many workers live, this one included."""
        self._series.workers.set(workers)

    def operators_informed(self) -> None:
        """Count an operational event that was published."""
        self._series.ops_events.inc()

    def spans_exported(self, count: int) -> None:
        """Count spans that the collector has."""
        self._series.spans.labels("exported").inc(count)

    def spans_dropped(self, reason: str, count: int) -> None:
        """Count spans that were dropped: full | refused | stopped."""
        self._series.spans.labels(reason).inc(count)

    def export_failed(self, detail: str) -> None:
        """The collector takes no spans; deliveries go on. Equal faults are logged once a minute."""
        self._export_fails = True
        self._export_faults.warning("tracing.failed", self.now(), {"detail": detail})

    def export_worked(self) -> None:
        """The collector took spans, perhaps again."""
        if self._export_fails:
            self._export_fails = False
            self._log.info("tracing.recovered", **self._export_faults.end())
