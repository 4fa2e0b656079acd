"""Report what keeps tenants apart. Belongs to the Observer: ``observe.fairness``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consumer.core.fairness.jain import Jain
from consumer.core.message.operator_events import Note, OperatorEventType
from metrics.series import Series


class FairnessReporter:
    """Reports on rerouted tenants, on even shares, and on events without a tenant."""

    def __init__(self, series: Series, log: Any, note: Callable[[Note], None]) -> None:
        self._series = series
        self._log = log
        self._note = note
        self._moved = series.tally(series.moved)
        self.around: set[str] = set()  #: tenants whose events are rerouted, as far as this worker knows
        series.fairness_index.set(1)

    def rerouted(self, tenant: str, queue: str, reason: str, *, bound: bool) -> None:
        """Report that this worker reroutes a tenant; *bound* is False where only messages in hand move."""
        self._log.warning("tenant.spilled", tenant=tenant, queue=queue, bound=bound, reason=reason)
        self._begin(tenant)
        self._series.tenant_spills.inc()
        self._note(Note(type=OperatorEventType.TENANT_NOISY, tenant=tenant, reason=reason))

    def adopted(self, tenant: str, queue: str) -> None:
        """Count a tenant that another worker rerouted, and reported."""
        self._log.info("tenant.adopted", tenant=tenant, queue=queue)
        self._begin(tenant)

    def returned(self, tenant: str, queue: str) -> None:
        """Report that the events of a tenant come by the lanes again: its spill queue is empty."""
        self._series.noisy_tenants.dec()
        self.around.discard(tenant)
        self._log.info("tenant.returned", tenant=tenant, queue=queue)

    def _begin(self, tenant: str) -> None:
        self._series.noisy_tenants.inc()
        self.around.add(tenant)

    def moved(self) -> None:
        """Count an unstarted message that went to the end of another queue, confirmed and acked."""
        self._moved.inc()

    def evened(self, evenness: Jain) -> None:
        """Show how evenly deliveries went to tenants in the minute that ended."""
        self._series.fairness_index.set(evenness.value)
        self._series.fairness_tenants.set(evenness.tenants)

    def borrow_limit_changed(self, deliveries: int) -> None:
        """Show how many deliveries one tenant may have in flight while no other waits."""
        self._series.borrowable.set(deliveries)

    def dedicated(self, tenants: int) -> None:
        """Show how many tenants have a lane of their own."""
        self._series.dedicated_tenants.set(tenants)

    def nameless(self, ratio: float, header: str) -> None:
        """Warn that most events have no tenant: they share one lane and one turn."""
        self._log.warning(
            "events.nameless",
            ratio=round(ratio, 3),
            detail=f"they share one lane and one turn: set the header {header}, "
            "or [events] hash_on = message_id where there is one tenant only",
        )
