"""Give back unstarted messages under long back-pressure, well before the broker's consumer timeout."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from consumer.edges.broker.edge import BrokerEdge
from consumer.edges.broker.publisher import ConfirmingPublisher
from consumer.flow.observe.observer import Observer
from consumer.flow.take.intake import Intake


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureRelief:
    """Leaves off consuming while the broker takes no publishes, and begins again afterwards."""

    publisher: ConfirmingPublisher
    edge: BrokerEdge
    intake: Intake
    observe: Observer
    give_back_s: float  #: back-pressure of so long without a break
    stopping: asyncio.Event  #: set by the first signal: from then on the drain gives back

    async def run(self) -> None:
        """Watch until the worker stops."""
        while True:
            await self.publisher.pressed_for(self.give_back_s)
            if self.stopping.is_set():
                return
            await self.edge.stop_consuming()
            self.observe.warned("window.given_back", messages=await self.intake.give_back())
            await self.publisher.relieved()
            if self.stopping.is_set():
                return
            await self.edge.resume_consuming()
