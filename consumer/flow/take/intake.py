"""Hold what the broker gave us, choose fairly what starts next, and start it while there is room.

Data flow: windows (edges) -> Intake.offer -> a fair queue per share -> a job task -> Deliverer.handle.
Nothing here awaits: :meth:`Intake.pump` runs whenever something arrived, ended or changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from consumer.core.errors import BrokerUnavailable
from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.queue import Standing
from consumer.core.fairness.scheduler import Scheduler
from consumer.core.message.delivery import is_moved
from consumer.core.model import RawMessage
from consumer.flow.base.context import Context
from consumer.flow.base.rate import Rate
from consumer.flow.base.slot_queue import SlotQueue
from consumer.flow.take.lanes_seen import LanesSeen
from consumer.ports import Incoming, Source

#: Sources whose messages only we publish: deliveries, and events that were moved, wrapped. The others hold a
#: producer's words.
OURS = frozenset({Source.DUE, Source.STRAY, Source.REPLAY})

#: Sources that share one place in the rotation: its name, and the part of the deliveries that it has at least
#: while it has work.
SHARES: tuple[tuple[str, frozenset[Source], float], ...] = (
    ("fresh", frozenset({Source.LANE, Source.INBOX}), 0.45),
    ("due", frozenset({Source.DUE, Source.STRAY}), 0.25),
    ("replay", frozenset({Source.REPLAY}), 0.1),
    ("spill", frozenset({Source.SPILL}), 0.15),
    ("suspect", frozenset({Source.SUSPECT}), 0.05),
)


MOST_ASIDE = 256  #: jobs that are moved at once
MOST_IN_PASS = 16  #: jobs that start in one pass of the loop for each tenant that waits, where some share it
RATE_LOOK_S = 0.01  #: what waits for the worker's rate looks again after this, at least


@dataclass(slots=True, eq=False)
class Job:
    """One message in hand."""

    source: Source
    incoming: Incoming
    tenant: str
    at: float = 0.0  #: monotonic seconds when it came
    cost: int = 1  #: deliveries that it is charged for
    counted: bool = False  #: started, and its first request has no slot yet
    task: asyncio.Task[None] | None = None  #: that works on it
    reserved: bool = False  #: it was held here until a time that its endpoint's clock gave it
    held_s: float = 0.0  #: for how long it was held here, by a clock that nobody sets

    def charge(self, deliveries: int) -> None:
        """Set what it is charged for."""
        self.cost = deliveries

    def lost(self) -> bool:
        """Whether the broker gives its message out again: what it still owes is owed by that one now."""
        return not self.incoming.ticket.alive()


class Intake:
    """Windows, the fair order between them, and the jobs that run."""

    def __init__(self, context: Context, handle: Callable[[Job], Awaitable[None]]) -> None:
        self._context = context
        self._handle = handle
        caps = Caps(capacity=context.bounds.concurrency, share=context.bounds.tenant_share)
        self._accounts = Accounts(caps, context.bounds.weight_of)
        self._tenant_header = context.decode.tenant_header
        self._pressed = context.publisher.pressed
        self._reserved = 0  #: slots that only tenants under their cap are given; see lend
        self._stuck = False  #: nobody may start one of those, as long as nothing changes
        self._paced = False  #: no more than MOST_IN_PASS start at a time
        self._in_pass = 0  #: jobs that were started since the last pass in which that was too many
        self._passing = False  #: the next pass goes on with it
        self._queued: Scheduler[Job] = Scheduler([part for *_, part in SHARES], self._accounts)
        self._share_of = {source: i for i, (_, sources, _) in enumerate(SHARES) for source in sources}
        self._waited = {s: context.observe.waited(name) for name, sources, _ in SHARES for s in sources}
        self._rate = context.rate
        self._rate_look: Callable[[], None] | None = None
        self.now = 0.0  #: monotonic seconds, as somebody last said
        self.ended = 0  #: jobs, since the start
        self.lanes_seen = LanesSeen(context.decode)  #: by which the events of each tenant come
        self._due_exchange = context.names.due
        self._lanes = self.lanes_seen.lanes
        self._starting = 0
        self._aside: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: dict[Job, Callable[[], None]] = {}
        self._paused = False
        self.slots = SlotQueue(context.bounds.concurrency, on_free=self.pump)
        self._most_jobs = 4 * context.bounds.concurrency

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # kept: each call costs a system call

    def offer(self, source: Source, incoming: Incoming) -> None:
        """Take one message from a window; called by the broker edge."""
        message = incoming.message
        moved = source in OURS or (source is Source.SPILL and self._is_moved(incoming))
        tenant = message.headers.get("leveret-tenant" if moved else self._tenant_header)
        if moved:
            tenant = tenant if isinstance(tenant, str) else ""
        elif not isinstance(tenant, str) or self._lanes.get(tenant) != message.queue:
            tenant = self._meet(source, tenant, message)
        if source is Source.LANE:
            self.lanes_seen.fresh += 1
        job = Job(source, incoming, tenant, self.now)
        if self._queued.push(self._share_of[source], job):
            self._stuck = False
        self.pump()

    def pump(self) -> None:
        """Start jobs while there is work, room and no back-pressure."""
        queued, slots, most = self._queued, self.slots, self._most_jobs
        while queued.length and not self._paused:
            free = slots.free - self._starting
            if free <= 0 or len(self._tasks) >= most or self._pressed() is not None:
                return
            if self._rate is not None and not self._has_room(self._rate):
                return
            begun = self._in_pass if self._paced else 0
            if begun >= MOST_IN_PASS and begun >= MOST_IN_PASS * queued.waiting():
                self._go_on_later()
                return
            scarce = free <= self._reserved
            job = None if scarce and self._stuck else queued.pop(scarce=scarce)
            if job is None:
                self._stuck = True
                return
            if not job.incoming.ticket.alive():
                self._accounts.ended(job)
                continue
            self._waited[job.source](self.now - job.at)
            job.counted = True
            self._starting += 1
            self._in_pass += 1
            job.task = self._loop.create_task(self._run(job))
            self._tasks.add(job.task)

    def _go_on_later(self) -> None:
        """Start more behind those that were started now: by then their deliveries are counted."""
        if not self._passing:
            self._passing = True
            self._loop.call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._in_pass, self._passing = 0, False
        self.pump()

    def _has_room(self, rate: Rate) -> bool:
        """Say whether the worker's rate lets one more job start; if not, look again when it does."""
        now = self._context.clock.now()
        if rate.room(now) > self._starting:
            return True
        if self._rate_look is None:
            delay_s = max(rate.opens_at(now) - now, RATE_LOOK_S)
            self._rate_look = self._context.clock.call_later(delay_s, self._look_again)
        return False

    def _look_again(self) -> None:
        self._rate_look = None
        self.pump()

    # for those that watch over it

    def lend(self, most: int) -> None:
        """Let one tenant have *most* deliveries in flight where nobody else waits; the rest is for others.

        Where that is not all, others are there: then only some jobs of a tenant start in one pass of the
        loop. Who comes next waits for these, however much stands before it.
        """
        reserved = self.slots.capacity - most
        self._paced = reserved > 0
        if reserved != self._reserved:
            self._accounts.lend(most)
            self._reserved, self._stuck = reserved, False
            self.pump()

    def done(self) -> dict[str, float]:
        """Return what each tenant got so far, over its weight; see :meth:`Accounts.done`."""
        return self._accounts.done()

    def started(self, *sources: Source) -> dict[str, int]:
        """Return how many jobs of each tenant from these sources were started so far."""
        found: dict[str, int] = {}
        for share in dict.fromkeys(self._share_of[source] for source in sources):
            for tenant, count in self._queued.queues[share].started().items():
                found[tenant] = found.get(tenant, 0) + count
        return found

    def held(self) -> dict[str, int]:
        """Return deliveries in flight by tenant."""
        return self._accounts.held()

    def lane_of(self, tenant: str) -> str:
        """Return the lane by which fresh events of a tenant came last; an empty text for none."""
        return self.lanes_seen.lane_of(tenant)

    def waiting_fresh(self) -> dict[str, int]:
        """Return fresh jobs in hand by tenant."""
        return self._waiting(Source.LANE)

    def waiting_spill(self) -> dict[str, int]:
        """Return jobs in hand from spill queues by tenant."""
        return self._waiting(Source.SPILL)

    def waiting(self) -> set[str]:
        """Return the tenants that have jobs in hand that were not started."""
        return {tenant for queue in self._queued.queues for tenant in queue.waiting_by_tenant()}

    def take_newest(self, tenant: str, keep: int, most: int) -> list[Job]:
        """Take up to *most* of a tenant's newest fresh jobs out of hand; *keep* stay."""
        share = self._share_of[Source.LANE]
        return self._queued.take_last(share, tenant, keep, min(most, self.room_aside()))

    def take_old(self, before: float) -> list[Job]:
        """Take jobs out of hand that came before *before* and were not started, some of them at a time."""
        room = self.room_aside()
        if not room:
            return []

        def is_old(job: Job) -> bool:
            nonlocal room
            old = job.at < before and job.source is not Source.SUSPECT and room > 0
            room -= old
            return old

        return self._queued.take_out(is_old)

    def room_aside(self) -> int:
        """Return how many more jobs may be moved at once."""
        return max(0, MOST_ASIDE - len(self._aside))

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* on a job that was taken out; the drain waits for it."""
        task = self._loop.create_task(self._do_aside(work))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    # jobs

    def under_way(self, job: Job) -> None:
        """The job reached its requests or will make none: its place at the start is free."""
        if job.counted:
            job.counted = False
            self._starting -= 1

    def recost(self, job: Job, deliveries: int) -> None:
        """The job turned out to be of so many deliveries."""
        self._stuck = False
        self._queued.recost(self._share_of[job.source], job, deliveries)

    def hold(self, job: Job, delay_s: float) -> bool:
        """Look at *job* again after *delay_s* without giving it back; False when too many are held."""
        if len(self._held) >= self._context.bounds.due_hold or self._paused:
            return False
        job.held_s += delay_s
        self._held[job] = self._context.clock.call_later(delay_s, lambda: self._unhold(job))
        return True

    def unstarted(self) -> int:
        """Messages in hand that no job works on."""
        return self._queued.length + len(self._held)

    def by_source(self) -> dict[str, int]:
        """Unstarted messages by share, for the gauge."""
        shares = zip(SHARES, self._queued.queues, strict=True)
        waiting = {"/".join(sorted(sources)): queue.length for (_, sources, _), queue in shares}
        return waiting | {"held": len(self._held)}

    def standings(self) -> dict[str, Standing]:
        """Where every tenant stands that waits for its turn, over all shares."""
        return self._queued.standings()

    def pause(self) -> None:
        """Start nothing more."""
        self._paused = True

    def resume(self) -> None:
        """Start jobs again."""
        self._paused = False
        self.pump()

    async def give_back(self) -> int:
        """Give back to the broker all that was not started; return how many messages.

        What came from suspect stays in hand: there a return tells of a worker's death, and the third one
        parks the message as poison. It is one message, whose channel has no other.
        """
        jobs = self._take_unstarted(lambda job: job.source is not Source.SUSPECT)
        for job in jobs:
            await job.incoming.ticket.requeue()
        return len(jobs)

    def finish_suspects(self) -> None:
        """Start what is not given back, although nothing else is started any more; not under pressure."""
        if self._context.publisher.pressed() is not None:
            return
        for job in self._take_unstarted(lambda job: job.source is Source.SUSPECT):
            self._accounts.of(job.tenant).charge(job.cost)
            job.task = self._loop.create_task(self._run(job))
            self._tasks.add(job.task)

    def _take_unstarted(self, wanted: Callable[[Job], bool]) -> list[Job]:
        held = [job for job in self._held if wanted(job)]
        for job in held:
            self._held.pop(job)()
        return held + self._queued.take_out(wanted)

    def forget_dead(self) -> None:
        """Drop what came by channels that died: the broker gives it out again."""
        self._take_unstarted(Job.lost)

    async def idle(self) -> None:
        """Return once no job runs."""
        while self._tasks or self._aside:
            await asyncio.wait(self._tasks | self._aside)

    def running(self) -> int:
        """Jobs that run now."""
        return len(self._tasks)

    async def _run(self, job: Job) -> None:
        try:
            await self._handle(job)
        except Exception as error:  # a bug in the handling of bugs: the others go on
            self._context.observe.task_failed("job", error)
        finally:
            self.under_way(job)
            self._accounts.ended(job)
            self._stuck = False
            self.ended += 1
            if job.task is not None:
                self._tasks.discard(job.task)
            self.pump()

    async def _do_aside(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BrokerUnavailable:  # given up: the broker gives the message out again
            return
        except Exception as error:  # a bug: the message stays unsettled and comes again
            self._context.observe.task_failed("move", error)

    def _meet(self, source: Source, word: object, message: RawMessage) -> str:
        if source is Source.LANE:
            return self.lanes_seen.by_lane(word, message.queue)
        if source is Source.SPILL and message.exchange:  # the default exchange needs no binding of ours
            return self.lanes_seen.by_binding(word, message.queue)
        return self.lanes_seen.otherwise(word)

    def _waiting(self, source: Source) -> dict[str, int]:
        return self._queued.queues[self._share_of[source]].waiting_by_tenant()

    def _is_moved(self, incoming: Incoming) -> bool:
        return is_moved(incoming.message, self._due_exchange)

    def _unhold(self, job: Job) -> None:
        if self._held.pop(job, None) is not None:
            job.at, self._stuck = self.now, False
            self._queued.push(self._share_of[job.source], job)
            self.pump()
