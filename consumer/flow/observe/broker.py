"""Report connections, publishes, queue depths and topology. Part of the Observer.

Implements :class:`consumer.ports.BrokerReports`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from consumer.flow.observe.reporter import Reporter, left_out
from metrics.series import Series
from topology.check import Finding, Severity


class BrokerReporter(Reporter):
    """Reports on this worker and the broker."""

    def __init__(self, series: Series, log: Any) -> None:
        super().__init__(series, log)
        series.pressed.set(1)  # a publisher begins without a connection, and reports only changes
        self._stuck: frozenset[str] = frozenset()  #: queues that confirmed nothing at the last look
        self._unpublished = self._fault_log()
        self._findings: Sequence[Finding] = ()  #: of the last comparison of the broker with the plan

    def broker_connected(self, connection: str, *, again: bool, suppressed: int = 0) -> None:
        """Report an open connection.

        Args:
            connection: Its name.
            again: Whether it is not the first one.
            suppressed: Refusals before it that are not in the log.
        """
        if again:
            self._series.reconnects.labels(connection).inc()
        self._log.info("broker.connected", connection=connection, **left_out(suppressed))

    def publish_confirmed(self, waited_s: float) -> None:
        """Count a confirm that came after *waited_s*."""
        self._series.confirm.observe(waited_s)

    def queues_stuck(self, queues: Collection[str]) -> None:
        """Set the gauge of the queues that confirm no publish; log each that begins or ends to be one."""
        self._series.stuck_queues.set(len(queues))
        for queue in sorted(set(queues) - self._stuck):
            self._log.warning("queue.stuck", queue=queue)
        for queue in sorted(self._stuck - set(queues)):
            self._log.info("queue.freed", queue=queue)
        self._stuck = frozenset(queues)

    def settles_lost(self, count: int) -> None:
        """Count settlements that met a dead channel: their messages come again."""
        self._series.stale_settles.inc(count)

    def topology_mismatched(self, error: Exception) -> None:
        """Report that a queue or exchange of ours has other arguments on the broker; the worker ends."""
        self._log.error("topology.mismatch", detail=str(error))

    def waiting_limited(self, limit_bytes: float) -> None:
        """Set the gauge of the bytes that may wait before fresh events stay in their lanes."""
        self._series.waiting_limit.set(limit_bytes)

    def waiting_estimated(self, waiting_bytes: float) -> None:
        """Set the gauge of the bytes of delivery messages that wait."""
        self._series.waiting_bytes.set(waiting_bytes)

    def queues_sized(self, totals: Mapping[str, int], now: float) -> None:
        """Set the depths of our queues at *now* (Unix seconds); without *totals* no depth is shown."""
        if not totals:
            self._series.queue_messages.clear()
            return
        for label, total in totals.items():
            self._series.queue_messages.labels(label).set(total)
        if totals.get("parked") == 0:
            self._series.parked_empty.set(int(now))

    def topology_checked(self, findings: Sequence[Finding]) -> None:
        """Report the differences between broker and plan; each one is logged once."""
        counts = Counter(finding.severity for finding in findings)
        for severity in Severity:
            self._series.topology_findings.labels(severity.value).set(counts[severity])
        for finding in findings:
            if finding not in self._findings:
                note = finding.severity is Severity.NOTE
                say = self._log.info if note else self._log.warning
                say("topology.finding", severity=finding.severity.value, detail=str(finding))
        self._findings = findings

    def broker_unreachable(
        self, connection: str, detail: str, next_try_s: float, *, suppressed: int | None
    ) -> None:
        """Count a connection that no broker took, and log it, unless *suppressed* is None.

        Args:
            connection: Its name.
            detail: The reason.
            next_try_s: Seconds until the next try.
            suppressed: Refusals for the same reason that are not in the log.
        """
        self._series.connect_failures.labels(connection).inc()
        if suppressed is not None:
            wait_s = round(next_try_s, 3)
            fields = {"connection": connection, "detail": detail, "next_try_s": wait_s}
            self._log.warning("broker.unreachable", **fields, **left_out(suppressed))

    def publish_failed(self, error: Exception, routing_key: str, wait_s: float) -> None:
        """Count a publish without a confirm; it is tried again after *wait_s*, the source stays unacked.

        Equal failures have one line a minute; without a broker, those of all queues are equal.
        """
        name = type(error).__name__
        label = {"Unroutable": "unroutable", "Refused": "refused"}.get(name, "unavailable")
        self._series.publish_failures.labels(label).inc()
        fault, once = {"error": label, "detail": str(error)}, {"routing_key": routing_key}
        if label != "unavailable":
            fault, once = {**fault, **once}, {}
        self._unpublished.warning("publish.failed", self.now(), fault, **once, wait_s=round(wait_s, 3))

    def pressed(self, reason: str | None) -> None:
        """Report that back-pressure began (a reason) or ended (None)."""
        self._series.pressed.set(0 if reason is None else 1)
        if reason is None:
            self._log.info("pressure.ended")
        else:
            self._log.warning("pressure.began", reason=reason)
