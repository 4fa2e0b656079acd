"""Give every part of the Observer the series, the log, and the listeners to notes for operators."""

from __future__ import annotations

from typing import Any

from consumer.core.listeners import Listeners
from consumer.core.message.operator_events import Note
from consumer.flow.observe.label_values import task_label
from metrics.series import Series


class Reporter:
    """Logs steps that have no metric; the parts of the Observer build on it.

    Attributes:
        notes: Listeners to notes for operators.
    """

    def __init__(self, series: Series, log: Any) -> None:
        self.notes: Listeners[[Note]] = Listeners()
        self._series = series
        self._log = log

    def task_failed(self, task: str, error: BaseException) -> None:
        """Log and count a bug: a task ended with an error that nobody expected."""
        self._series.task_failures.labels(task_label(task)).inc()
        self._log.error("task.failed", task=task, exc_info=error)

    def said(self, event: str, **fields: object) -> None:
        """Log a step of the daemon's life, such as ``daemon.started``."""
        self._log.info(event, **fields)

    def warned(self, event: str, **fields: object) -> None:
        """Log what an operator should look at."""
        self._log.warning(event, **fields)
