"""Set the borrow limit of one worker, and measure how evenly its tenants share it.

Data flow: lag of the event loop, tenants that were served -> core.fairness.borrow_limit ->
Intake.set_borrow_limit; deliveries of each tenant -> core.fairness.jain -> gauges. It also warns when most
fresh events have no tenant.
"""

from __future__ import annotations

import asyncio

from consumer.core.fairness.accounts import Caps
from consumer.core.fairness.borrow_limit import BorrowLimit
from consumer.core.fairness.jain import Minute
from consumer.flow.base.context import Context
from consumer.flow.take.intake import Intake

TICK_S = 0.05  #: between two looks at the loop's lag
LOOK_S = 1.0
NAMELESS_RATIO = 0.5  #: part of the fresh events without a tenant above which it is reported
NAMELESS_LEAST = 200  #: events in a minute below which nothing is reported
MINUTE_S = 60.0


class Sharing:
    """Watches one worker."""

    def __init__(self, context: Context, intake: Intake, *, by_tenant: bool) -> None:
        """Wire.

        Args:
            context: The ports.
            intake: The jobs in hand.
            by_tenant: Lanes are chosen by the tenant, so that all events without a tenant go to one lane.
        """
        bounds = context.bounds
        self._context = context
        self._intake = intake
        self._by_tenant = by_tenant
        self._borrow_limit = BorrowLimit(Caps(capacity=bounds.concurrency, share=bounds.tenant_share))
        self._minute = Minute()
        self._done: dict[str, float] = {}
        self._fresh = self._nameless = 0  #: events up to the last count
        self._counted_at = 0.0
        self._reported = False
        context.observe.fairness.dedicated(len(bounds.dedicated))

    async def run(self) -> None:
        """Watch for ever."""
        clock = self._context.clock
        looked = self._counted_at = clock.monotonic()
        self._intake.tick(looked)
        self.look(looked)
        while True:
            before = clock.monotonic()
            await asyncio.sleep(TICK_S)
            now = clock.monotonic()
            self._intake.tick(now)
            if now - looked >= LOOK_S:
                looked = now
                self.look(now)
            most = self._borrow_limit.update(now - before - TICK_S)
            self._intake.set_borrow_limit(most)
            self._context.observe.fairness.borrow_limit_changed(most)

    def look(self, now: float) -> None:
        """Take in which tenants were served since the last look; *now* in monotonic seconds."""
        intake, fairness = self._intake, self._context.observe.fairness
        done, held, waiting = intake.done(), intake.held(), intake.waiting()
        served = {tenant for tenant, so_far in done.items() if so_far != self._done.get(tenant, 0.0)}
        self._borrow_limit.served(served | held.keys() | waiting, now)
        self._done = done
        evenness = self._minute.look(waiting, done, now)
        if evenness is not None:
            fairness.evened(evenness)
        if now - self._counted_at >= MINUTE_S:
            self._counted_at = now
            self._count_nameless()

    def _count_nameless(self) -> None:
        """Report once that most fresh events of a minute named no tenant; again after a minute without."""
        all_fresh, all_nameless = self._intake.fresh, self._intake.lanes_seen.nameless
        fresh, nameless = all_fresh - self._fresh, all_nameless - self._nameless
        self._fresh, self._nameless = all_fresh, all_nameless
        if not self._by_tenant or fresh < NAMELESS_LEAST:
            return
        ratio = nameless / fresh
        if ratio > NAMELESS_RATIO and not self._reported:
            self._context.observe.fairness.nameless(ratio, self._context.decode.tenant_header)
        self._reported = ratio > NAMELESS_RATIO
