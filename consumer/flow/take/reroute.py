"""Reroute the events of noisy tenants around the lanes, and move messages that are in hand for too long.

Data flow: Intake (deliveries and jobs by tenant) -> NoisyTenantMeter -> a binding on leveret.route -> the
tenant's spill queue; its jobs in hand -> published there, confirmed, acked. Once the spill queue is empty the
binding is removed.

The binding of a worker that died shows itself by its events: an event in a spill queue came by a binding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from consumer.core.errors import BrokerUnavailable
from consumer.core.fairness.noisy_tenants import (
    Came,
    LoadSample,
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
from consumer.flow.take.intake import Intake
from consumer.flow.take.job import OWN_SOURCES, Job
from consumer.ports import Publication, Routes, Source

LOOK_S = 0.5
MOVE_S = 0.05
KEPT_IN_HAND = 1 / 16  #: part of a lane's window that stays in hand, so that deliveries never run dry
ENDED_PER_MOVE = 2  #: jobs that end for each job that is moved
LEAST_MOVED = 4  #: jobs moved at a time even when no delivery ends
IDLE_S = 3.0  #: a spill queue is empty for this long before its binding is removed
RECHECK_S = 1.0
ASK_EVERY_S = 2.0  #: between two requests to the broker for the length of lanes
LEAST_CAME = 20  #: events of a tenant within a look from which on the length of its lane is asked for


@dataclass(slots=True)
class Rerouted:
    """A tenant whose events go around the lanes."""

    queue: str
    bound: bool  #: False where a binding is not possible: then only messages in hand are moved
    _quiet_since: float | None = None  #: monotonic seconds
    _left_lane: bool = False  #: its lane was short at a look since the tenant was bound

    def fills_again(self, *, behind: bool, leads: bool) -> bool:
        """Take in the state of its lane; return whether the tenant fills the lane again, although bound.

        Args:
            behind: The lane holds more than a window.
            leads: The tenant's events fill the lane.
        """
        if not behind:
            self._left_lane = True
            return False
        if not (self._left_lane and self.bound and leads):
            return False
        self._left_lane = False
        return True

    def quiet_s(self, now: float, *, quiet: bool) -> float:
        """Take in whether the tenant is quiet at *now*; return for how many seconds it has been."""
        if not quiet:
            self._quiet_since = None
            return 0.0
        if self._quiet_since is None:
            self._quiet_since = now
        return now - self._quiet_since


class Reroute:
    """Watches the tenants of one worker."""

    def __init__(
        self, context: Context, intake: Intake, routes: Routes, tenants_known: Callable[[], int]
    ) -> None:
        """Wire.

        Args:
            context: The ports.
            intake: The jobs in hand.
            routes: Bindings.
            tenants_known: Returns how many tenants have subscriptions: a single tenant delays no other.
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
        self._more_old = False  #: more messages are in hand for too long than were moved at once
        self._kept = max(1, int(bounds.lane_window * KEPT_IN_HAND))
        self._default = context.decode.default_tenant  #: its events may have no header to bind by
        self._never = frozenset({"", *bounds.dedicated})
        self._limit_of = bounds.limit_of
        self._rates = Rates()
        self._by_lane: Mapping[str, int] = {}  #: events started so far, at the last look
        self._by_spill: Mapping[str, int] = {}
        self._ready: Mapping[str, int] = {}  #: messages in lanes, at the last request
        self._ask_at = 0.0
        self._over: Mapping[str, str] = {}  #: tenants over a limit at the last look, each with the reason
        self._rerouted: dict[str, Rerouted] = {}
        self._moved: dict[str, int] = {}  #: fresh jobs that were moved since the last look, by tenant
        self._ended = 0

    async def run(self) -> None:
        """Watch for ever."""
        reroutes = bool(self._context.bounds.spill_queues)
        clock = self._context.clock
        looked = checked = clock.monotonic()
        self._intake.tick(looked)
        while True:
            await asyncio.sleep(MOVE_S)
            now = clock.monotonic()
            self._intake.tick(now)
            try:
                if reroutes and now - looked >= LOOK_S:
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
        """Reroute the tenants that have become noisy; adopt the bindings of other workers."""
        intake = self._intake
        for tenant, queue in intake.lanes_seen.came_bound().items():
            await self._adopt(tenant, queue)
        came, brought = self._came()
        if self._tenants_known() < 2:
            self._ready, self._over = {}, {}  # an earlier look keeps no tenant away from its lane
            return
        await self._ask(came)
        await self._bind_again(came)
        self._over = self._over_limits(came, brought, passed_s)
        sample = LoadSample(
            held=intake.held(),
            backlogged={t for t, lane in came.leaders(LEAST_CAME).items() if self._is_behind(lane)},
            others_wait=len(intake.waiting()) > 1,
            over_limit=self._over,
        )
        for tenant, reason in self._meter.look(sample, passed_s, self._rerouted.keys(), self._never):
            await self._reroute(tenant, reason)

    def _came(self) -> tuple[Came, Mapping[str, int]]:
        """Return the events that came by lanes since the last look, and all jobs started since then."""
        intake = self._intake
        lane, spill = intake.started_from(Source.LANE), intake.started_from(Source.SPILL)
        by_lane, by_spill = _since(self._by_lane, lane), _since(self._by_spill, spill)
        self._by_lane, self._by_spill = lane, spill
        moved, self._moved = self._moved, {}
        in_hand = intake.waiting_from(Source.LANE)
        came = Came(_sum(moved, _sum(by_lane, in_hand)), intake.lanes_seen.lane_of)
        return came, _sum(by_lane, by_spill)

    async def _ask(self, came: Came) -> None:
        """Ask, now and then, for the length of lanes that a tenant fills, has left, or has a limit in."""
        now = self._intake.now
        if now < self._ask_at:
            return
        lanes = set(came.leaders(LEAST_CAME).values())
        lanes |= {came.lane_of(t) for t in came.counts if self._limit_of(t).backlog is not None}
        lanes |= {came.lane_of(tenant) for tenant in self._rerouted}
        self._ready = await self._routes.ready(lanes - {""}) if lanes else {}
        self._ask_at = now + ASK_EVERY_S

    def _is_behind(self, lane: str) -> bool:
        return self._ready.get(lane, 0) >= self._context.bounds.lane_window

    def _over_limits(self, came: Came, brought: Mapping[str, int], passed_s: float) -> Mapping[str, str]:
        """Return the tenants that bring more than their limit, each with the reason."""
        limits = {t: self._limit_of(t) for t in came.counts.keys() | brought.keys()}
        limited = {t: brought.get(t, 0) for t, limit in limits.items() if limit != NO_LIMIT}
        found, rates = {}, self._rates.look(limited, passed_s)
        for tenant in limited.keys() | rates.keys():
            limit, lane = self._limit_of(tenant), came.lane_of(tenant)
            known = lane in self._ready and tenant not in self._rerouted
            backlog = self._ready[lane] * came.share(tenant) if known else None
            fault = over_limit(limit, rates.get(tenant, 0.0), backlog)
            if fault is not None:
                found[tenant] = fault
        return found

    async def _reroute(self, tenant: str, reason: str) -> None:
        queue = self._queue_of(tenant)
        bound = tenant != self._default and await self._routes.bind(tenant, queue)
        self._rerouted[tenant] = Rerouted(queue, bound)
        self._context.observe.fairness.rerouted(tenant, queue, reason, bound=bound)

    async def _bind_again(self, came: Came) -> None:
        """Bind a tenant anew that fills its lane again: a worker that saw it quiet removed the binding."""
        leaders = came.leaders(LEAST_CAME)
        for tenant, rerouted in self._rerouted.items():
            lane = came.lane_of(tenant)
            if lane in self._ready:
                behind, leads = self._is_behind(lane), tenant in leaders
                if rerouted.fills_again(behind=behind, leads=leads):
                    await self._routes.bind(tenant, rerouted.queue)

    async def _adopt(self, tenant: str, queue: str) -> None:
        """Adopt the binding of another worker, by which an event came to *queue*.

        A binding of a tenant with a lane of its own, or to another queue than the settings give it, sooner or
        later copies each event: it is removed at once.
        """
        if tenant in self._never or tenant == self._default or queue != self._queue_of(tenant):
            await self._routes.unbind(tenant, queue)
            return
        if tenant in self._rerouted:
            return
        self._rerouted[tenant] = Rerouted(queue, bound=True)
        self._context.observe.fairness.adopted(tenant, queue)

    def _queue_of(self, tenant: str) -> str:
        """Return the queue of a rerouted tenant's events: a due queue where there are no spill queues."""
        names, queues = self._context.names, self._context.bounds.spill_queues
        return names.spill(spill_index(tenant, queues)) if queues else names.due_queue(0)

    def _move(self) -> None:
        """Move the newest jobs of rerouted tenants: all together one for every two jobs that ended.

        A confirmed publish costs up to two thirds of a delivery, so moving takes a quarter of the work.
        """
        intake = self._intake
        ended, self._ended = intake.ended - self._ended, intake.ended
        if not self._rerouted or self._context.publisher.pressed() is not None:
            return
        most = max(LEAST_MOVED, ended // ENDED_PER_MOVE)
        for tenant, rerouted in self._rerouted.items():
            jobs = intake.take_newest(tenant, self._kept, most)
            self._moved[tenant] = self._moved.get(tenant, 0) + len(jobs)
            most -= len(jobs)
            for job in jobs:
                intake.moves.begin(self._move_one(job, rerouted.queue))

    def _move_old(self, now: float) -> bool:
        """Move each job to the end of a queue that is in hand, unstarted, for longer than ``in_hand_s``.

        Returns:
            Whether there may be more such jobs, for which there is no room now.
        """
        if self._context.publisher.pressed() is not None:
            return False
        old = self._intake.take_old(now - self._context.bounds.in_hand_s)
        for job in old:
            raw = job.incoming.message
            ours = job.source in OWN_SOURCES
            queue = raw.queue if ours else self._queue_of(job.tenant)
            self._intake.moves.begin(self._move_one(job, queue))
        return bool(old) or not self._intake.moves.room()

    async def _move_one(self, job: Job, queue: str) -> None:
        """Publish a job's message to *queue*, wait for the confirm, then ack it."""
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
            of=job.targets,
        )
        await job.ack()
        context.observe.fairness.moved()

    async def _release(self, now: float) -> None:
        """Return a tenant to the lanes once its spill queue has been empty for a while."""
        intake, bounds = self._intake, self._context.bounds
        held, fresh = intake.held(), intake.waiting_from(Source.LANE)
        waiting = intake.waiting_from(Source.SPILL)
        for tenant, rerouted in list(self._rerouted.items()):
            queue = rerouted.queue
            quiet = (
                not waiting.get(tenant)
                and fresh.get(tenant, 0) <= self._kept
                and tenant not in self._over
                and not self._is_behind(intake.lanes_seen.lane_of(tenant))
                and held.get(tenant, 0) <= bounds.concurrency * bounds.noisy_share
            )
            quiet = quiet and not (await self._routes.ready([queue]))[queue]
            if rerouted.quiet_s(now, quiet=quiet) >= IDLE_S:
                if rerouted.bound:
                    await self._routes.unbind(tenant, queue)
                del self._rerouted[tenant]
                self._context.observe.fairness.returned(tenant, queue)


def moved_headers(raw: RawMessage, job: Job, due: str) -> dict[str, object]:
    """Return the headers of a moved message: its own ones, or a producer's ones wrapped, with the tenant."""
    if job.source in OWN_SOURCES or is_moved(raw, due):
        return own_headers(raw)
    return wrap_raw(raw) | {"leveret-tenant": job.tenant}


def _since(before: Mapping[str, int], now: Mapping[str, int]) -> Mapping[str, int]:
    """Return by how much counts grew; a count that is smaller now began anew at 0."""
    return {
        tenant: count - (old if (old := before.get(tenant, 0)) <= count else 0)
        for tenant, count in now.items()
    }


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {t: n for t in one.keys() | other.keys() if (n := one.get(t, 0) + other.get(t, 0))}
