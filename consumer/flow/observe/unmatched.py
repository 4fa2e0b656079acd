"""Report events that no enabled subscription wants. Belongs to the Observer: ``observe.unmatched``."""

from __future__ import annotations

from consumer.core.model import Event
from consumer.flow.observe.reporter import FaultLog, traced
from metrics.series import Series


class UnmatchedReporter:
    """Counts them, and warns of each tenant and type at most once a minute."""

    def __init__(self, series: Series, faults: FaultLog) -> None:
        self._count = series.events.labels("unmatched")
        self._faults = faults

    def event(self, event: Event, now: float) -> None:
        """Count an unmatched event; it is not parked.

        Args:
            event: The event.
            now: Monotonic seconds.
        """
        self._count.inc()
        pair = {"tenant": event.tenant, "type": event.type}
        self._faults.warning("event.unmatched", now, pair, event_id=event.id, **traced(event))
