"""Report what the broker does: connections, publishes, queues, topology. Part of the Observer.

Implements :class:`consumer.ports.BrokerReports`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from consumer.flow.observe.reporter import Reporter
from metrics.series import Series
from topology.check import Finding, Severity


class BrokerReporter(Reporter):
    """What happens between this worker and the broker."""

    def __init__(self, series: Series, log: Any) -> None:
        super().__init__(series, log)
        series.pressed.set(1)  # a publisher begins without a connection, and reports only changes
        self._findings: Sequence[Finding] = ()  #: of the last comparison of the broker with the plan

    def broker_connected(self, connection: str, *, again: bool) -> None:
        """A connection is open; *again*: not for the first time."""
        if again:
            self._series.reconnects.labels(connection).inc()
        self._log.info("broker.connected", connection=connection)

    def publish_confirmed(self, waited_s: float) -> None:
        """The broker confirmed a publish after *waited_s*."""
        self._series.confirm.observe(waited_s)

    def settles_lost(self, count: int) -> None:
        """So many settlements met a dead channel: their messages come again."""
        self._series.stale_settles.inc(count)

    def topology_mismatched(self, error: Exception) -> None:
        """The broker holds something else under a name of ours; the worker ends."""
        self._log.error("topology.mismatch", detail=str(error))

    def waiting_limited(self, limit_bytes: int) -> None:
        """Fresh events are left in their lanes from *limit_bytes* of waiting delivery messages on."""
        self._series.waiting_limit.set(limit_bytes)

    def waiting_estimated(self, waiting_bytes: float) -> None:
        """So many bytes of delivery messages wait."""
        self._series.waiting_bytes.set(waiting_bytes)

    def queues_sized(self, totals: Mapping[str, int], now: float) -> None:
        """The queues were looked at, at *now*; no *totals* when they could not be: none beat old ones."""
        if not totals:
            self._series.queue_messages.clear()
            return
        for label, total in totals.items():
            self._series.queue_messages.labels(label).set(total)
        if totals.get("parked") == 0:
            self._series.parked_empty.set(int(now))

    def topology_checked(self, findings: Sequence[Finding]) -> None:
        """The broker was compared with the plan; each difference is logged once."""
        counts = Counter(finding.severity for finding in findings)
        for severity in Severity:
            self._series.topology_findings.labels(severity.value).set(counts[severity])
        for finding in findings:
            if finding not in self._findings:
                note = finding.severity is Severity.NOTE
                say = self._log.info if note else self._log.warning
                say("topology.finding", severity=finding.severity.value, detail=str(finding))
        self._findings = findings

    def broker_unreachable(self, connection: str, detail: str, next_try_s: float, *, is_new: bool) -> None:
        """No broker of the list took the connection; *is_new*: the log does not have that reason yet."""
        self._series.connect_failures.labels(connection).inc()
        if is_new:
            wait_s = round(next_try_s, 3)
            self._log.warning("broker.unreachable", connection=connection, detail=detail, next_try_s=wait_s)

    def publish_failed(self, error: Exception, routing_key: str, wait_s: float) -> None:
        """A publish was not confirmed; it is tried again after *wait_s*, the source stays unacked."""
        name = type(error).__name__
        label = {"Unroutable": "unroutable", "Refused": "refused"}.get(name, "unavailable")
        self._series.publish_failures.labels(label).inc()
        self._log.warning(
            "publish.failed", error=label, detail=str(error), routing_key=routing_key, wait_s=round(wait_s, 3)
        )

    def pressed(self, reason: str | None) -> None:
        """Back-pressure began (a reason) or ended (None)."""
        self._series.pressed.set(0 if reason is None else 1)
        if reason is None:
            self._log.info("pressure.ended")
        else:
            self._log.warning("pressure.began", reason=reason)
