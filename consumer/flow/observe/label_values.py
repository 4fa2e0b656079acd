"""Begin the series of every label value that is known beforehand."""

from __future__ import annotations

from typing import Final

from consumer.core.model import OutcomeKind, ParkReason
from metrics.series import MAX_ATTEMPT_LABEL, Series, attempt_label
from topology.check import Severity

TASKS: Final = frozenset(
    (
        *("check", "confirms", "control", "history", "job", "move", "overflow", "parked sizes", "quorum"),
        *("record", "repair", "replay jobs", "returns", "settled lookup", "sizes", "slow probe", "spill"),
        *("store", "suspect", "topology check", "tracing", "window", "other"),
    )
)
"""Label values of failed tasks. A main routine is ``other``, as its end is that of the process."""


def task_label(task: str) -> str:
    """Return the label of a task; all windows share one."""
    label = "window" if task.startswith("window ") else task
    return label if label in TASKS else "other"


def begin_at_zero(series: Series) -> None:
    """Make the series of closed sets: a rate over a series that appears late misses its first counts."""
    for reason in ParkReason:
        series.parked.labels(reason.value)
    for kind in OutcomeKind:
        series.retries_by_kind.labels(kind.value)
    for number in range(1, MAX_ATTEMPT_LABEL + 1):
        series.retries.labels(attempt_label(number))
        for result in ("delivered", "failed"):
            series.attempts_by_number.labels(attempt_label(number), result)
    for state in ("closed", "open", "probing"):
        series.breakers.labels(state)
    for severity in Severity:
        series.topology_findings.labels(severity.value)
    for way in ("replayed", "archived", "purged"):
        series.parked_age.labels(way)
    for task in TASKS:
        series.task_failures.labels(task)
    for counter, values in (
        (series.events, "matched unmatched bad inbox suspect duplicate"),
        (series.deliveries, "delivered parked cancelled archived"),
        (series.deferrals, "breaker local locked paced paused proxy saturated slow unknown"),
        (series.publish_failures, "unroutable refused unavailable"),
        (series.reconnects, "consume publish"),
        (series.connect_failures, "consume publish"),
        (series.reloads, "ok failed"),
        (series.history_dropped, "full refused stopped"),
        (series.spans, "exported full refused stopped"),
    ):
        for value in values.split():
            counter.labels(value)
