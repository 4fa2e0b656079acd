"""An intake between fakes, whose jobs start and end when a test decides."""

from __future__ import annotations

import asyncio

from consumer.core.message.delivery import DeliveryMessage
from consumer.flow.take.intake import Intake
from consumer.flow.take.job import Job
from consumer.ports import Incoming, Source
from tests.support.fakes import FakeTicket
from tests.support.worker import Worker, delivery_message, event, event_message


class IntakeDesk:
    """An intake whose jobs end when the test decides."""

    def __init__(self, concurrency: int = 1, **bounds: int) -> None:
        self.worker = Worker(concurrency=concurrency, **bounds)
        self.started: list[Job] = []
        self.leave = asyncio.Event()
        self.use_slots = True
        self.intake = Intake(self.worker.context, self._work)
        self.tickets: list[FakeTicket] = []

    def offer(self, source: Source = Source.LANE, tenant: str = "acme") -> FakeTicket:
        """Hand over one message of a tenant."""
        message = event_message(tenant=tenant)
        if source is Source.DUE:
            owed = DeliveryMessage(event=event(tenant=tenant), targets=("sub_1",))
            message = delivery_message(owed)
        ticket = FakeTicket(self.worker.journal, tenant)
        self.tickets.append(ticket)
        self.intake.offer(source, Incoming(message, ticket))
        return ticket

    async def run_all(self) -> list[Job]:
        """Let every job end at once; return them in the order in which they started."""
        self.leave.set()
        await self.intake.idle()
        return self.started

    def tenants(self) -> list[str]:
        """Return the tenants of the started jobs, in order."""
        return [job.tenant for job in self.started]

    async def _work(self, job: Job) -> None:
        self.started.append(job)
        job.started(takes_slot=True)
        await self.intake.slots.acquire()
        try:
            await self.leave.wait()
        finally:
            self.intake.slots.release()
