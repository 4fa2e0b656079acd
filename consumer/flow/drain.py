"""End tidily: take nothing more, give unstarted messages back, bring started jobs to their end.

Data flow: stop signal -> consumers cancelled -> unstarted messages back to the broker -> requests end within
the grace, or are cut and stored -> the broker has every settlement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from consumer.flow.deliver.dead_letters import DeadLetters
from consumer.flow.deliver.router import Router
from consumer.flow.endpoints.agreement import Agreement
from consumer.flow.observe.observer import Observer
from consumer.flow.operator_events import OperatorEvents
from consumer.flow.take.intake import Intake

STORE_CUT_S = 5.0  #: after the grace: time to publish cut requests, before they are left unsettled
TELL_S = 3.0  #: time for the last operational events; while the broker is blocked nothing is confirmed


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The parts that a drain brings to their end, in :meth:`run`."""

    router: Router
    overflow: DeadLetters
    ops: OperatorEvents
    agreement: Agreement
    observe: Observer
    stop_consuming: Callable[[], Awaitable[None]]
    flush: Callable[[], Awaitable[None]]  #: returns once the broker has every settlement
    grace_s: float  #: that requests get to end

    async def run(self) -> None:
        """Stop consuming, give back, let requests end within the grace, store cut ones, settle all."""
        intake = self.router.intake
        intake.pause()
        self.observe.said("drain.began", running=intake.running(), unstarted=intake.unstarted())
        await self.stop_consuming()
        leaving = asyncio.ensure_future(self.overflow.leave(self.grace_s))
        given_back = await intake.give_back()
        intake.finish_suspects()
        try:
            await asyncio.wait_for(intake.idle(), self.grace_s)
        except TimeoutError:
            self.observe.warned("drain.cut", requests=self.router.cut())
            await self._store_cut(intake)
        given_back += await intake.give_back() + await leaving
        await self.flush()
        await self._tell_last()
        self.observe.said("drain.ended", given_back=given_back)

    async def _tell_last(self) -> None:
        """Publish the last operational events and say goodbye; no wait for a blocked broker."""
        try:
            async with asyncio.timeout(TELL_S):
                await self.ops.finish()
                await self.agreement.leave()
        except TimeoutError:
            self.observe.warned("drain.untold")

    async def _store_cut(self, intake: Intake) -> None:
        """Wait until cut requests are stored; without a broker, all their messages come again."""
        try:
            await asyncio.wait_for(intake.idle(), STORE_CUT_S)
        except TimeoutError:
            self.observe.warned("drain.abandoned", unsettled=intake.running())
