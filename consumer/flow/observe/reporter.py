"""Give every part of the Observer the series, the log, and the listeners to notes for operators."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from consumer.core.listeners import Listeners
from consumer.core.message.operator_events import Note
from consumer.core.model import Event
from consumer.core.repeats import Repeats
from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.label_values import task_label
from metrics.series import Series


class Reporter:
    """Logs steps that have no metric; the parts of the Observer build on it.

    Attributes:
        notes: Listeners to notes for operators.
        now: Returns monotonic seconds.
    """

    def __init__(self, series: Series, log: Any) -> None:
        self.notes: Listeners[[Note]] = Listeners()
        self._series = series
        self.now: Callable[[], float] = time.monotonic
        self._log = log
        self._repeats = Repeats()

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

    def faulted(self, event: str, next_try_s: float, **fields: object) -> None:
        """Log a fault of a step that is tried again after *next_try_s*; equal ones share a line a minute."""
        suppressed = self._repeats.due((event, *map(str, fields.values())), self.now())
        if suppressed is not None:
            self._log.warning(event, **fields, next_try_s=round(next_try_s, 3), **left_out(suppressed))


def left_out(suppressed: int) -> dict[str, int]:
    """Return the field of a line that stands for *suppressed* earlier equal ones too; none for 0."""
    return {"suppressed": suppressed} if suppressed else {}


def about(subscription: Subscription) -> dict[str, object]:
    """Return the fields that name a subscription: its tenant, ``tenant/name``, its id."""
    return {
        "tenant": subscription.tenant,
        "subscription": subscription.shown,
        "subscription_id": subscription.id,
    }


def traced(event: Event) -> dict[str, str]:
    """Return the field that joins a line to the event's trace; none without one."""
    trace_id = event.trace_id if event.trace else None
    return {} if trace_id is None else {"trace_id": trace_id}
