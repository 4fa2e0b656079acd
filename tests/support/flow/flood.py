"""A worker, a tenant with endless work, and the routine that reroutes that tenant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from consumer.core.fairness.noisy_tenants import TenantLimit, spill_index
from consumer.core.message.delivery import unwrap_raw
from consumer.flow.take.reroute import Reroute
from tests.support.fakes import Published
from tests.support.fakes_routes import FakeRoutes
from tests.support.worker import NAMES, Worker, event_message

SPILL = NAMES.spill(spill_index("acme", 4))


SPILL_KEY = NAMES.direct_key(SPILL)


class Flood:
    """A worker with 20 slots, a tenant with endless work, and the routine under test."""

    def __init__(self, **bounds: Any) -> None:
        self.routes = FakeRoutes()
        self.routes.stands[NAMES.lane(0)] = 100  # the lane holds more than its window
        self.worker = Worker(concurrency=20, lane_window=100, quick_latency_s=1e6, **bounds)
        self.tenants = 2
        self.reroute = Reroute(self.worker.context, self.worker.intake, self.routes, lambda: self.tenants)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the routine beside the test; every request takes a second."""
        self.worker.sender.latency_s["https://shop.example/"] = 1.0
        await self.worker.subscribe("shop", concurrency=100)
        task = asyncio.create_task(self.reroute.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self.worker.intake.idle()
        assert self.worker.bugs() == []

    def flood(self, count: int = 400) -> None:
        """Put events of one tenant into the window."""
        for number in range(count):
            self.worker.offer(event_message(message_id=f"a-{number}"))

    def rerouted(self) -> dict[str, str]:
        """Return the spill queue of each tenant that is rerouted now, as the log reports it."""
        found: dict[str, str] = {}
        for _, name, fields in self.worker.log.lines:
            if name in ("tenant.spilled", "tenant.adopted"):
                found[str(fields["tenant"])] = str(fields["queue"])
            elif name == "tenant.returned":
                found.pop(str(fields["tenant"]))
        return found

    def confirmed_at(self, published: Published) -> int:
        """Return the place in the journal of a moved event's confirm."""
        steps = enumerate(self.worker.journal)
        [place] = [n for n, s in steps if s.what == "confirmed" and s.publication is published.publication]
        return place

    def acked_at(self, published: Published) -> int:
        """Return the place in the journal of the ack of the flood's event that was moved."""
        number = int(str(unwrap_raw(published.raw()).message_id).removeprefix("a-"))
        ticket, steps = self.worker.tickets[number], enumerate(self.worker.journal)
        [place] = [n for n, s in steps if s.what == "ack" and s.of == ticket.name]
        return place

    def moved(self) -> list[Published]:
        """Return the events that were moved into the spill queue."""
        return self.worker.publisher.to(SPILL_KEY)


async def flood_for(desk: Flood, seconds: int) -> None:
    """Let the flood's lane bring 60 events a second."""
    for step in range(2 * seconds):
        for number in range(30):
            desk.worker.offer(event_message(message_id=f"{seconds}-{step}-{number}"))
        await desk.worker.clock.advance(0.5)


def limited(tenant: str) -> TenantLimit:
    """Limit acme alone."""
    return TenantLimit(events_per_s=10, backlog=5_000) if tenant == "acme" else TenantLimit()
