"""Report orphans, which are deliveries whose subscription is unknown. The Observer has it as ``orphans``."""

from __future__ import annotations

from typing import Any

from consumer.core.model import Event
from consumer.flow.observe.reporter import FaultLog, traced
from metrics.series import Series


class OrphanReporter:
    """Counts them, and warns of each subscription at most once a minute."""

    def __init__(self, series: Series, log: Any, unknown: FaultLog) -> None:
        self._deferrals = series.deferrals
        self._log = log
        self._unknown = unknown

    def waits(self, event: Event, target: str, now: float) -> None:
        """Count a delivery that waits on, since the store does not have its subscription.

        Args:
            event: The event of the delivery.
            target: Id of the subscription.
            now: Monotonic seconds.
        """
        self._deferrals.labels("unknown").inc()
        fault = {"tenant": event.tenant, "subscription_id": target}
        self._unknown.warning("subscription.unknown", now, fault, event_id=event.id, **traced(event))

    def unarchived(self, event: Event, target: str, error: OSError) -> None:
        """Report a cancelled delivery that the archive did not take; it waits on."""
        self._deferrals.labels("unknown").inc()
        detail = error.strerror or str(error)
        ids = {"event_id": event.id, "tenant": event.tenant, "subscription_id": target}
        self._log.error("delivery.unarchived", **ids, **traced(event), detail=detail)
