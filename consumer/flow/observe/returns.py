"""Report the queues that do not give back their messages. Part of the Observer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from metrics.series import Series


class ReturnsReporter:
    """Reports on the rungs and due queues of this worker's waits."""

    def __init__(self, series: Series, log: Any) -> None:
        self._series = series
        self._log = log
        self._late: Collection[str] = ()

    def begin(self, queues: Iterable[str]) -> None:
        """Show that nothing is overdue in each of *queues*."""
        for queue in queues:
            self._series.overdue.labels(queue).set(0)

    def late(self, now: Mapping[str, float]) -> None:
        """Show for how many seconds each queue has been late; a queue that is not late has no series."""
        for queue in set(self._late) - now.keys():
            self._series.late.remove(queue)
        for queue, seconds in now.items():
            self._series.late.labels(queue).set(seconds)
        self._late = now.keys()

    def overdue(self, now: Mapping[str, int], before: Mapping[str, int]) -> None:
        """Show the messages that each queue owes, and log each queue that began or ceased to owe some.

        Args:
            now: Number of missing messages by queue, only of queues that owe some.
            before: The same of the last report.
        """
        for queue in before.keys() - now.keys():
            self._series.overdue.labels(queue).set(0)
            self._log.info("queue.returned", queue=queue)
        for queue, messages in now.items():
            self._series.overdue.labels(queue).set(messages)
            if queue not in before:
                self._log.warning("queue.overdue", queue=queue, messages=messages)
