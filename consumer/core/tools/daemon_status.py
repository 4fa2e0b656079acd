"""Compute the current activity of a daemon from two pages of its metrics.

Data flow: samples of /metrics, twice -> MetricsPage, MetricsPage -> status -> the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import NamedTuple


class Sample(NamedTuple):
    """One line of a metrics page."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """All samples of one page, read at one time."""

    at_s: float  #: monotonic seconds
    samples: tuple[Sample, ...]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of *name* that have *labels*; 0 if there are none."""
        return sum(self._values(name, labels))

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the samples of *name*, summed by one label."""
        found: dict[str, float] = {}
        for sample in self.samples:
            if sample.name == name and label in sample.labels:
                value = sample.labels[label]
                found[value] = found.get(value, 0.0) + sample.value
        return found

    def _values(self, name: str, labels: Mapping[str, str]) -> Iterable[float]:
        return (s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items())


class SubscriptionTrouble(NamedTuple):
    """The trouble of one subscription."""

    subscription: str  #: tenant/name
    cause: str
    share: float  #: of the last minute's work that failed or was held


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The current activity of a daemon; rates cover the time between the two pages."""

    interval_s: float
    events_per_s: float
    unmatched_per_s: float  #: events that no enabled subscription wanted
    unmatched: int  #: such events since the daemon started
    deliveries_per_s: float  #: deliveries that ended in any way
    attempts_per_s: float
    success_ratio: float | None  #: of the attempts that ended; None if there were none
    in_flight: int  #: HTTP requests
    waiting: Mapping[str, int]  #: messages by kind of queue
    overdue: Mapping[str, int]  #: messages that did not come back in time, by queue; only queues with some
    windows: Mapping[str, int]  #: messages received and not yet started, by source
    breakers: Mapping[str, int]  #: endpoints by the state of their breaker
    parked: int  #: messages
    parked_indexed: int | None  #: by the store's index; None if unknown
    troubles: Sequence[SubscriptionTrouble]  #: of the subscriptions in most trouble, the worst first
    subscriptions: int  #: enabled
    subscriptions_disabled: int


def status(first: MetricsPage, second: MetricsPage) -> Status:
    """Compare two pages.

    A counter that decreased belongs to a daemon that restarted meanwhile: it counts from 0.

    Raises:
        ValueError: *second* is not later than *first*.
    """
    seconds = second.at_s - first.at_s
    if seconds <= 0:
        raise ValueError(f"the second page must be later, not by {seconds} s")

    def growth(name: str, **labels: str) -> float:
        before, now = first.total(name, **labels), second.total(name, **labels)
        return now - before if now >= before else now

    attempts = growth("leveret_attempts_total")
    queues = second.by("leveret_queue_messages", "queue")
    overdue = second.by("leveret_queue_overdue_messages", "queue")
    indexed = next((s.value for s in second.samples if s.name == "leveret_parked_indexed_messages"), nan)
    return Status(
        interval_s=round(seconds, 3),
        events_per_s=round(growth("leveret_events_total") / seconds, 1),
        unmatched_per_s=round(growth("leveret_events_total", outcome="unmatched") / seconds, 1),
        unmatched=int(second.total("leveret_events_total", outcome="unmatched")),
        deliveries_per_s=round(growth("leveret_deliveries_total") / seconds, 1),
        attempts_per_s=round(attempts / seconds, 1),
        success_ratio=round(growth("leveret_attempts_total", kind="ok") / attempts, 4) if attempts else None,
        in_flight=int(second.total("leveret_requests_in_flight")),
        waiting={kind: int(count) for kind, count in queues.items() if kind != "parked"},
        overdue={queue: count for queue, count in _whole(overdue).items() if count},
        windows=_whole(second.by("leveret_window_messages", "source")),
        breakers=_whole(second.by("leveret_breakers", "state")),
        parked=int(queues.get("parked", 0)),
        parked_indexed=None if isnan(indexed) else int(indexed),
        troubles=_troubles(second),
        subscriptions=int(second.total("leveret_subscriptions", enabled="true")),
        subscriptions_disabled=int(second.total("leveret_subscriptions", enabled="false")),
    )


def _troubles(page: MetricsPage) -> list[SubscriptionTrouble]:
    found = [
        SubscriptionTrouble(s.labels.get("subscription", ""), s.labels.get("cause", ""), round(s.value, 3))
        for s in page.samples
        if s.name == "leveret_subscription_trouble" and s.value > 0
    ]
    return sorted(found, key=lambda one: (-one.share, one.subscription))


def _whole(values: Mapping[str, float]) -> dict[str, int]:
    return {name: int(value) for name, value in values.items()}
