"""Give every part of the Observer the series, the log, and the listeners to notes for operators.

Repeated faults go through a :class:`FaultLog`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal, TypeAlias

from consumer.core.listeners import Listeners
from consumer.core.message.operator_events import Note
from consumer.core.model import Event
from consumer.core.repeats import Repeats
from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.label_values import task_label
from metrics.series import Series

Level: TypeAlias = Literal["warning", "error"]
Fields: TypeAlias = Mapping[str, Hashable]


class FaultLog:
    """Logs faults of one kind: the first of equal ones, then one a minute, with the number of the others.

    A line after a minute without them, or the line of their end, contains the number of the last ones.
    """

    def __init__(self, log: Any) -> None:
        """Begin without faults; *log* is a logger of structlog."""
        self._log = log
        self._repeats: Repeats[tuple[Level, str, tuple[tuple[str, Hashable], ...]]] = Repeats()

    def warning(self, event: str, now: float, fields: Fields, **once: object) -> None:
        """Log a fault, unless an equal one was logged within the last minute.

        Args:
            event: Name of the line.
            now: Monotonic seconds.
            fields: Faults with the same name and the same fields are equal.
            once: Fields in which equal faults may differ.
        """
        self._take("warning", event, now, fields, once)

    def error(self, event: str, now: float, fields: Fields, **once: object) -> None:
        """Log a fault of level error, as :meth:`warning` does."""
        self._take("error", event, now, fields, once)

    def settle(self, now: float) -> None:
        """Log each fault that did not come for a minute, if some of them had no line; *now* as above."""
        for (level, event, fields), suppressed in self._repeats.settle(now):
            self._write(level, event, dict(fields), suppressed)

    def end(self) -> dict[str, int]:
        """Forget every fault; return the field for the line that reports their end."""
        return left_out(self._repeats.end())

    def _take(self, level: Level, event: str, now: float, fields: Fields, once: Mapping[str, object]) -> None:
        suppressed = self._repeats.due((level, event, tuple(fields.items())), now)
        if suppressed is not None:
            self._write(level, event, {**fields, **once}, suppressed)

    def _write(self, level: Level, event: str, fields: Mapping[str, object], suppressed: int) -> None:
        getattr(self._log, level)(event, **fields, **left_out(suppressed))


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
        self._fault_logs: list[FaultLog] = []
        self._faults = self._fault_log()

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

    def faulted(self, event: str, next_try_s: float, **fields: str) -> None:
        """Log a fault of a step that is tried again after *next_try_s*; equal ones share a line a minute."""
        self._faults.warning(event, self.now(), fields, next_try_s=round(next_try_s, 3))

    def settle_faults(self, now: float) -> None:
        """Log the number of the faults without a line that did not come for a minute.

        Args:
            now: Monotonic seconds; infinite as the worker ends.
        """
        for faults in self._fault_logs:
            faults.settle(now)

    def _line(self, level: Literal["info", "warning"], event: str) -> Callable[[dict[str, object]], None]:
        """Return a function that logs *event* with its fields, for lines on the path of every request.

        Tenant and subscription come first in the fields. None is named as a part of every line: timestamp,
        level, event or exc_info.
        """
        prepared = getattr(self._log, "prepared", None)
        if prepared is None:
            return lambda fields: getattr(self._log, level)(event, **fields)
        prepare: Callable[[str, str], Callable[[dict[str, object]], None]] = prepared
        return prepare(level, event)

    def _fault_log(self) -> FaultLog:
        """Return a log for faults of one kind."""
        self._fault_logs.append(FaultLog(self._log))
        return self._fault_logs[-1]


def left_out(suppressed: int) -> dict[str, int]:
    """Return the field of a line that stands for *suppressed* equal ones too; none for 0."""
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
    trace_id = event.trace_id
    return {} if trace_id is None else {"trace_id": trace_id}
