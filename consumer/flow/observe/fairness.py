"""Say and count what keeps tenants apart. Belongs to the Observer: ``observe.crowds``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consumer.core.fairness.jain import Jain
from consumer.core.message.operator_events import Note, OperatorEventType
from metrics.series import Series


class FairnessReporter:
    """Who is led around the lanes, how even the shares are, who names no tenant."""

    def __init__(self, series: Series, log: Any, note: Callable[[Note], None]) -> None:
        self._series = series
        self._log = log
        self._note = note
        self._moved = series.tally(series.moved)
        series.fairness_index.set(1)

    def rerouted(self, tenant: str, queue: str, reason: str, *, bound: bool) -> None:
        """This worker leads a tenant around the lanes; *bound* is False where only what is in hand moves."""
        self._log.warning("tenant.spilled", tenant=tenant, queue=queue, bound=bound, reason=reason)
        self._series.noisy_tenants.inc()
        self._series.tenant_spills.inc()
        self._note(Note(type=OperatorEventType.TENANT_NOISY, tenant=tenant, reason=reason))

    def adopted(self, tenant: str, queue: str) -> None:
        """Another worker did, or one that died: it has told, and this one counts it too."""
        self._log.info("tenant.adopted", tenant=tenant, queue=queue)
        self._series.noisy_tenants.inc()

    def returned(self, tenant: str, queue: str) -> None:
        """Its spill queue is empty: its events come by the lanes again."""
        self._series.noisy_tenants.dec()
        self._log.info("tenant.returned", tenant=tenant, queue=queue)

    def moved(self) -> None:
        """A message that was not started went to the end of another queue, confirmed and acked."""
        self._moved.inc()

    def evened(self, evenness: Jain) -> None:
        """A minute is over."""
        self._series.fairness_index.set(evenness.value)
        self._series.fairness_tenants.set(evenness.tenants)

    def lent(self, deliveries: int) -> None:
        """One tenant may hold so many deliveries where nobody else waits."""
        self._series.borrowable.set(deliveries)

    def dedicated(self, tenants: int) -> None:
        """So many tenants have a lane of their own."""
        self._series.dedicated_tenants.set(tenants)

    def nameless(self, ratio: float, header: str) -> None:
        """Most events name no tenant: they share one lane and one turn."""
        self._log.warning(
            "events.nameless",
            ratio=round(ratio, 3),
            detail=f"they share one lane and one turn: set the header {header}, "
            "or [events] hash_on = message_id where there is one tenant only",
        )
