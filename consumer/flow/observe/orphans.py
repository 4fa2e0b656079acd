"""Report orphans, which are deliveries whose subscription is unknown. The Observer has it as ``orphans``."""

from __future__ import annotations

from typing import Any

from consumer.core.model import Event
from metrics.series import Series

WARN_EVERY_S = 60.0  #: between two warnings of one unknown subscription
WARNED_MOST = 1_000  #: subscriptions whose last warning is kept


class OrphanReporter:
    """Counts them, and warns of each subscription at most once a minute."""

    def __init__(self, series: Series, log: Any) -> None:
        self._deferrals = series.deferrals
        self._log = log
        self._warned: dict[str, float] = {}  #: subscription id -> when, monotonic seconds

    def waits(self, event: Event, target: str, now: float) -> None:
        """Count a delivery that waits on, since the store does not have its subscription.

        Args:
            event: The event of the delivery.
            target: Id of the subscription.
            now: Monotonic seconds.
        """
        self._deferrals.labels("unknown").inc()
        if now - self._warned.get(target, -WARN_EVERY_S) < WARN_EVERY_S:
            return
        if len(self._warned) >= WARNED_MOST:
            self._warned.clear()
        self._warned[target] = now
        self._log.warning(
            "subscription.unknown", event_id=event.id, tenant=event.tenant, subscription_id=target
        )

    def unarchived(self, event: Event, target: str, error: OSError) -> None:
        """Report a cancelled delivery that the archive did not take; it waits on."""
        self._deferrals.labels("unknown").inc()
        detail = error.strerror or str(error)
        self._log.error("delivery.unarchived", event_id=event.id, subscription_id=target, detail=detail)
