"""Watch how one worker is shared out: how much one tenant may borrow, how even it is, who names no tenant.

Data flow: the loop's lateness, who was served -> core.lending -> Intake.lend; core.evenness -> gauges.
"""

from __future__ import annotations

import asyncio

from consumer.core.fairness.accounts import Caps
from consumer.core.fairness.borrow_limit import BorrowLimit
from consumer.core.fairness.jain import Minute
from consumer.flow.base.context import Context
from consumer.flow.take.intake import Intake

TICK_S = 0.05  #: how often the loop's lateness is looked at
LOOK_S = 1.0
NAMELESS_RATIO = 0.5  #: of the fresh events; from more on it is said
NAMELESS_LEAST = 200  #: events in a minute below which a part says nothing
MINUTE_S = 60.0


class Sharing:
    """Watches one worker."""

    def __init__(self, context: Context, intake: Intake, *, by_tenant: bool) -> None:
        """Wire.

        Args:
            world: The ports.
            intake: What is in hand.
            by_tenant: Lanes are chosen by the tenant, so that events without one all go to one lane.
        """
        bounds = context.bounds
        self._context = context
        self._intake = intake
        self._by_tenant = by_tenant
        self._borrow_limit = BorrowLimit(Caps(capacity=bounds.concurrency, share=bounds.tenant_share))
        self._minute = Minute()
        self._done: dict[str, float] = {}
        self._fresh = self._nameless = 0  #: events so far, when they were counted last
        self._counted_at = 0.0
        self._said = False
        context.observe.fairness.dedicated(len(bounds.dedicated))

    async def run(self) -> None:
        """Watch for ever."""
        clock = self._context.clock
        looked = self._counted_at = self._intake.now = clock.monotonic()
        self.look(looked)
        while True:
            before = clock.monotonic()
            await asyncio.sleep(TICK_S)
            self._intake.now = now = clock.monotonic()
            if now - looked >= LOOK_S:
                looked = now
                self.look(now)
            most = self._borrow_limit.lend(now - before - TICK_S)
            self._intake.lend(most)
            self._context.observe.fairness.lent(most)

    def look(self, now: float) -> None:
        """Take in who was served since the last look; *now* in monotonic seconds."""
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
        """Say once that most fresh events of a minute named no tenant, and again after a minute without."""
        lanes_seen = self._intake.lanes_seen
        fresh, nameless = lanes_seen.fresh - self._fresh, lanes_seen.nameless - self._nameless
        self._fresh, self._nameless = lanes_seen.fresh, lanes_seen.nameless
        if not self._by_tenant or fresh < NAMELESS_LEAST:
            return
        ratio = nameless / fresh
        if ratio > NAMELESS_RATIO and not self._said:
            self._context.observe.fairness.nameless(ratio, self._context.decode.tenant_header)
        self._said = ratio > NAMELESS_RATIO
