"""Bring the gauges up to date once a second that follow what this worker holds, and the log of faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from consumer.daemon.loop_lag import LoopLag
from consumer.daemon.readiness import Readiness
from consumer.edges.broker.edge import BrokerEdge
from consumer.edges.process import logs
from consumer.flow.deliver.router import Router
from consumer.flow.endpoints.troubles import EndpointTroubles
from consumer.flow.observe.observer import Holdings, Observer
from consumer.flow.take.intake import SOURCE_LABELS
from consumer.ports import Clock

EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Looks at one worker."""

    router: Router
    edge: BrokerEdge
    readiness: Readiness
    clock: Clock
    observe: Observer
    troubles: EndpointTroubles

    async def run(self) -> None:
        """Look for ever."""
        intake, lag = self.router.intake, LoopLag()
        while True:
            await asyncio.sleep(EVERY_S)
            now = self.clock.now()
            self.observe.tenants_wait(intake.standings(), now)
            self.observe.tenants_hold(intake.held(), self.observe.fairness.around)
            self.observe.settle_faults(self.clock.monotonic())
            self.troubles.look(now)
            self.observe.owed(self.router.oldest_at(), now)
            self.observe.holds(
                Holdings(
                    requests=self.router.requests(),
                    held_bytes=self.edge.held_bytes(),
                    by_source=intake.by_source(),
                    bytes_by_source=self._bytes_by_source(),
                    lag_s=lag.worst_s(),
                    log_dropped=logs.dropped(),
                    ready=self.readiness.unready() is None,
                )
            )

    def _bytes_by_source(self) -> Mapping[str, int]:
        """Return the bytes in hand by the label values of the gauge."""
        found: Counter[str] = Counter()
        for source, size_bytes in self.edge.bytes_by_source().items():
            found[SOURCE_LABELS.get(source, source.value)] += size_bytes
        return found
