"""Send a noisy tenant's events around the lanes, and move what stands in the windows for too long.

Data flow: Intake (who holds what) -> NoiseMeter -> a binding on leveret.route -> the tenant's spill queue;
its jobs in hand -> published there, confirmed, acked. When the spill queue is empty the binding goes.

A binding that a dead worker left is found by what it brings: an event in a spill queue came by a binding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from consumer.core.errors import BrokerUnavailable
from consumer.core.fairness.noisy_tenants import (
    Came,
    Look,
    NoisyTenantMeter,
    NoisyTenantRule,
    Rates,
    over_limit,
    spill_index,
)
from consumer.core.message.delivery import is_moved, own_headers, short_text, wrap_raw
from consumer.core.model import RawMessage
from consumer.flow.base.context import NO_LIMIT, Context
from consumer.flow.base.outbox import Outbox
from consumer.flow.take.intake import OURS, Intake, Job
from consumer.ports import Publication, Routes, Source

LOOK_S = 0.5
MOVE_S = 0.05
KEPT_IN_LINE = 1 / 16  #: of a lane's window stays in hand, so that deliveries never run dry
ENDED_PER_MOVE = 2  #: jobs that end for each one that is moved
LEAST_MOVED = 4  #: jobs moved at a time even when no delivery ends
IDLE_S = 3.0  #: a spill queue has to be empty for this long before its bindings go
RECHECK_S = 1.0
ASK_EVERY_S = 2.0  #: how often the broker is asked what stands in lanes
LEAST_CAME = 20  #: events of a tenant within a look, for its lane to be asked after


@dataclass(slots=True)
class Spilled:
    """A tenant whose events take the way around the lanes."""

    queue: str
    bound: bool  #: False where that cannot be bound: then only what is in hand is moved
    quiet_since: float | None = None  #: monotonic seconds since which nothing of it was seen
    left_lane: bool = False  #: its lane was seen not behind since it was bound


class Reroute:
    """Watches the tenants of one worker."""

    def __init__(
        self, context: Context, intake: Intake, routes: Routes, tenants_known: Callable[[], int]
    ) -> None:
        """Wire.

        Args:
            world: The ports.
            intake: What is in hand.
            routes: Bindings.
            tenants_known: How many tenants have subscriptions: one alone crowds nobody.
        """
        bounds = context.bounds
        self._context = context
        self._intake = intake
        self._routes = routes
        self._tenants_known = tenants_known
        self._outbox = Outbox(context)
        self._meter = NoisyTenantMeter(
            NoisyTenantRule(
                held=bounds.concurrency * bounds.noisy_share,
                after_s=bounds.noisy_after_s,
            )
        )
        self._more_old = False  #: more stands in hand for too long than was moved at once
        self._kept = max(1, int(bounds.lane_window * KEPT_IN_LINE))
        self._default = context.decode.default_tenant  #: its events may have no header that could be bound
        self._never = frozenset({"", *bounds.dedicated})
        self._limit_of = bounds.limit_of
        self._rates = Rates()
        self._by_lane: Mapping[str, int] = {}  #: events started so far, at the last look
        self._by_spill: Mapping[str, int] = {}
        self._ready: Mapping[str, int] = {}  #: messages in lanes, when they were last asked after
        self._ask_at = 0.0
        self._over: Mapping[str, str] = {}  #: tenants over a limit of theirs at the last look, and which
        self._spilled: dict[str, Spilled] = {}
        self._moved: dict[str, int] = {}  #: fresh jobs that were moved since the last look, by tenant
        self._ended = 0

    def spilled(self) -> dict[str, str]:
        """Return the spill queue of each tenant that is re-routed now."""
        return {tenant: spilled.queue for tenant, spilled in self._spilled.items()}

    async def run(self) -> None:
        """Watch for ever."""
        clock, leads = self._context.clock, bool(self._context.bounds.spill_queues)
        looked = checked = self._intake.now = clock.monotonic()
        while True:
            await asyncio.sleep(MOVE_S)
            self._intake.now = now = clock.monotonic()
            try:
                if leads and now - looked >= LOOK_S:
                    await self._look(now - looked)
                    looked = now
                self._move()
                if now - checked >= RECHECK_S or self._more_old:
                    self._more_old = self._move_old(now)
                if now - checked >= RECHECK_S:
                    await self._release(now)
                    checked = now
            except BrokerUnavailable as error:
                self._context.observe.said("spill.waits", detail=str(error))
                await asyncio.sleep(RECHECK_S)
            except Exception as error:  # a bug: deliveries go on without it
                self._context.observe.task_failed("spill", error)
                await asyncio.sleep(RECHECK_S)

    async def _look(self, passed_s: float) -> None:
        """Re-route who has become noisy; take over what another worker bound."""
        intake = self._intake
        for tenant, queue in intake.lanes_seen.came_bound().items():
            await self._adopt(tenant, queue)
        came, brought = self._came()
        if self._tenants_known() < 2:
            self._ready, self._over = {}, {}  # what was seen before keeps nobody away from its lane
            return
        await self._ask(came)
        await self._bind_again(came)
        self._over = self._over_limits(came, brought, passed_s)
        look = Look(
            held=intake.held(),
            backlogged={t for t, lane in came.leaders(LEAST_CAME).items() if self._is_behind(lane)},
            others_wait=len(intake.waiting()) > 1,
            over_limit=self._over,
        )
        for tenant, reason in self._meter.look(look, passed_s, self._spilled.keys(), self._never):
            await self._reroute(tenant, reason)

    def _came(self) -> tuple[Came, Mapping[str, int]]:
        """Count since the last look: what came by the lanes, started or in hand; all that was started."""
        intake = self._intake
        lane, spill = intake.started(Source.LANE), intake.started(Source.SPILL)
        by_lane, by_spill = _since(self._by_lane, lane), _since(self._by_spill, spill)
        self._by_lane, self._by_spill = lane, spill
        moved, self._moved = self._moved, {}
        came = Came(_sum(moved, _sum(by_lane, intake.waiting_fresh())), intake.lane_of)
        return came, _sum(by_lane, by_spill)

    async def _ask(self, came: Came) -> None:
        """Ask, now and then, how much stands in the lanes that somebody fills, left, or has a limit in."""
        now = self._intake.now
        if now < self._ask_at:
            return
        lanes = set(came.leaders(LEAST_CAME).values())
        lanes |= {came.lane_of(t) for t in came.counts if self._limit_of(t).backlog is not None}
        lanes |= {came.lane_of(tenant) for tenant in self._spilled}
        self._ready = await self._routes.ready(lanes - {""}) if lanes else {}
        self._ask_at = now + ASK_EVERY_S

    def _is_behind(self, lane: str) -> bool:
        return self._ready.get(lane, 0) >= self._context.bounds.lane_window

    def _over_limits(self, came: Came, brought: Mapping[str, int], passed_s: float) -> Mapping[str, str]:
        """Return who brings more than it may, and in which way."""
        limits = {t: self._limit_of(t) for t in came.counts.keys() | brought.keys()}
        limited = {t: brought.get(t, 0) for t, limit in limits.items() if limit != NO_LIMIT}
        found, rates = {}, self._rates.look(limited, passed_s)
        for tenant in limited.keys() | rates.keys():
            limit, lane = self._limit_of(tenant), came.lane_of(tenant)
            known = lane in self._ready and tenant not in self._spilled
            backlog = self._ready[lane] * came.share(tenant) if known else None
            fault = over_limit(limit, rates.get(tenant, 0.0), backlog)
            if fault is not None:
                found[tenant] = fault
        return found

    async def _reroute(self, tenant: str, reason: str) -> None:
        queue = self._queue_of(tenant)
        bound = tenant != self._default and await self._routes.bind(tenant, queue)
        self._spilled[tenant] = Spilled(queue, bound)
        self._context.observe.fairness.spilled(tenant, queue, reason, bound=bound)

    async def _bind_again(self, came: Came) -> None:
        """Bind anew who fills its lane again: a worker to which it seemed quiet took the binding away."""
        leaders = came.leaders(LEAST_CAME)
        for tenant, spilled in self._spilled.items():
            lane = came.lane_of(tenant)
            if lane in self._ready and not self._is_behind(lane):
                spilled.left_lane = True
            elif lane in self._ready and spilled.left_lane and spilled.bound and tenant in leaders:
                spilled.left_lane = False
                await self._routes.bind(tenant, spilled.queue)

    async def _adopt(self, tenant: str, queue: str) -> None:
        """Take over a binding that shows itself by an event in *queue*.

        One beside a lane of the tenant's own, or to another queue than it has by the settings, copies each
        event sooner or later: it goes at once.
        """
        if tenant in self._never or tenant == self._default or queue != self._queue_of(tenant):
            await self._routes.unbind(tenant, queue)
            return
        if tenant in self._spilled:
            return
        self._spilled[tenant] = Spilled(queue, bound=True)
        self._context.observe.fairness.adopted(tenant, queue)

    def _queue_of(self, tenant: str) -> str:
        """Return where the events of a tenant wait; without spill queues they go by a due queue."""
        names, queues = self._context.names, self._context.bounds.spill_queues
        return names.spill(spill_index(tenant, queues)) if queues else names.due_queue(0)

    def _move(self) -> None:
        """Move newest jobs of re-routed tenants, in all one for every second job that ended.

        A publish that is confirmed costs up to two thirds of a delivery, so that takes a quarter of the work.
        """
        intake = self._intake
        ended, self._ended = intake.ended - self._ended, intake.ended
        if not self._spilled or self._context.publisher.pressed() is not None:
            return
        most = max(LEAST_MOVED, ended // ENDED_PER_MOVE)
        for tenant, spilled in self._spilled.items():
            jobs = intake.take_newest(tenant, self._kept, most)
            self._moved[tenant] = self._moved.get(tenant, 0) + len(jobs)
            most -= len(jobs)
            for job in jobs:
                intake.aside(self._move_one(job, spilled.queue))

    def _move_old(self, now: float) -> bool:
        """Nothing that was not started stays in hand over its time: it goes to the end of a queue.

        Returns:
            Whether there may be more, which could not be moved now.
        """
        if self._context.publisher.pressed() is not None:
            return False
        old = self._intake.take_old(now - self._context.bounds.in_hand_s)
        for job in old:
            raw = job.incoming.message
            ours = job.source in OURS
            self._intake.aside(self._move_one(job, raw.queue if ours else self._queue_of(job.tenant)))
        return bool(old) or not self._intake.room_aside()

    async def _move_one(self, job: Job, queue: str) -> None:
        """Confirm, then ack."""
        raw, context = job.incoming.message, self._context
        names = context.names
        if job.source is Source.STRAY:
            queue = names.due_queue(0)
        await self._outbox.confirmed(
            Publication(
                exchange=names.due,
                routing_key=names.direct_key(queue),
                body=raw.body,
                headers=moved_headers(raw, job, names.due),
                content_type=short_text(raw.content_type or "application/octet-stream"),
            ),
            give_up=job.lost,
        )
        await job.incoming.ticket.ack()
        context.observe.fairness.moved()

    async def _release(self, now: float) -> None:
        """Send a tenant back to the lanes once its spill queue has been empty for a while."""
        held, waiting = self._intake.held(), self._intake.waiting_spill()
        fresh = self._intake.waiting_fresh()
        for tenant, spilled in list(self._spilled.items()):
            quiet = not waiting.get(tenant) and fresh.get(tenant, 0) <= self._kept
            quiet = quiet and tenant not in self._over
            quiet = quiet and not self._is_behind(self._intake.lane_of(tenant))
            quiet = quiet and held.get(tenant, 0) <= self._context.bounds.concurrency * (
                self._context.bounds.noisy_share
            )
            if not quiet or (await self._routes.ready([spilled.queue]))[spilled.queue]:
                spilled.quiet_since = None
            elif spilled.quiet_since is None:
                spilled.quiet_since = now
            elif now - spilled.quiet_since >= IDLE_S:
                if spilled.bound:
                    await self._routes.unbind(tenant, spilled.queue)
                del self._spilled[tenant]
                self._context.observe.fairness.returned(tenant, spilled.queue)


def moved_headers(raw: RawMessage, job: Job, due: str) -> dict[str, object]:
    """Return what a moved message carries: ours as it is, a producer's wrapped, with its tenant."""
    if job.source in OURS or is_moved(raw, due):
        return own_headers(raw)
    return wrap_raw(raw) | {"leveret-tenant": job.tenant}


def _since(before: Mapping[str, int], now: Mapping[str, int]) -> Mapping[str, int]:
    """Return by how much counts grew; one that began anew counts from 0."""
    return {
        tenant: count - (old if (old := before.get(tenant, 0)) <= count else 0)
        for tenant, count in now.items()
    }


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {t: n for t in one.keys() | other.keys() if (n := one.get(t, 0) + other.get(t, 0))}
