"""Keep the messages in hand, choose fairly which job starts next, and start it while there is room.

Data flow: windows (edges) -> Intake.offer -> a fair queue per share -> a job task -> Router.handle.
Nothing here awaits: :meth:`Intake.pump` runs whenever a message arrived, a job ended or a bound changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cached_property

from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.queue import FairQueue, Standing
from consumer.core.fairness.scheduler import Scheduler
from consumer.core.message.delivery import is_moved
from consumer.core.model import RawMessage
from consumer.flow.base.context import Context
from consumer.flow.base.rate import Rate
from consumer.flow.base.slot_queue import SlotQueue
from consumer.flow.take.held import HeldJobs
from consumer.flow.take.job import OWN_SOURCES, Job
from consumer.flow.take.lanes_seen import LanesSeen
from consumer.flow.take.moves import Moves
from consumer.ports import Incoming, Source

#: Sources that share one place in the rotation: its name, and the part of the deliveries that it has at least
#: while it has work.
SHARES: tuple[tuple[str, frozenset[Source], float], ...] = (
    ("fresh", frozenset({Source.LANE, Source.INBOX}), 0.45),
    ("due", frozenset({Source.DUE, Source.STRAY}), 0.25),
    ("replay", frozenset({Source.REPLAY}), 0.1),
    ("spill", frozenset({Source.SPILL}), 0.15),
    ("suspect", frozenset({Source.SUSPECT}), 0.05),
)

SOURCE_LABELS: Mapping[Source, str] = {
    source: "/".join(sorted(sources)) for _, sources, _ in SHARES for source in sources
}
"""Label values of the gauges of messages in hand; sources of one share are counted together."""

MOST_IN_PASS = 16  #: jobs of each waiting tenant that start in one pass of the loop, while tenants share it
RATE_LOOK_S = 0.01  #: shortest time after which a worker whose rate is used up looks again


class Intake:
    """The windows, the fair order between them, and the jobs that run.

    Attributes:
        books: Of this worker.
        now: Monotonic seconds at the last :meth:`tick`.
        ended: Jobs that ended, since the start.
        fresh: Events that came by lanes, since the start.
        lanes_seen: The lane, or the binding, by which the events of each tenant came.
        slots: The worker's requests in flight.
        moves: The moves of jobs that were taken out unstarted.
    """

    def __init__(self, context: Context, handle: Callable[[Job], Awaitable[None]]) -> None:
        bounds = context.bounds
        self.books = context.books
        self.now = 0.0
        self.ended = 0
        self.fresh = 0
        self.lanes_seen = LanesSeen(context.decode)
        self.slots = SlotQueue(bounds.concurrency, on_free=self.pump)
        self.moves = Moves(context.observe)
        self._context = context
        self._handle = handle
        self._accounts = Accounts(
            Caps(capacity=bounds.concurrency, share=bounds.tenant_share), bounds.weight_of
        )
        self._queued: Scheduler[Job] = Scheduler([part for *_, part in SHARES], self._accounts, bounds.batch)
        self._share_of = {source: i for i, (_, sources, _) in enumerate(SHARES) for source in sources}
        self._waited = {s: context.observe.waited(name) for name, sources, _ in SHARES for s in sources}
        self._held = HeldJobs(context.clock, bounds.due_hold, self._queue_again)
        self._tasks: dict[Job, asyncio.Task[None]] = {}
        self._most_jobs = 4 * bounds.concurrency
        self._starting: set[Job] = set()  #: started jobs whose first request has no slot yet
        self._paused = False
        self._pressed = context.publisher.pressed
        self._reserved = 0  #: slots that only tenants under their cap get; see set_borrow_limit
        self._stuck = False  #: no tenant may take one of those, until something changes
        self._paced = False  #: each tenant may start only MOST_IN_PASS jobs in a pass of the loop
        self._in_pass = 0  #: jobs that were started since the last pass that reached its limit
        self._passing = False  #: the next pass starts more
        self._rate = context.rate
        self._rate_look: Callable[[], None] | None = None
        self._tenant_header = context.decode.tenant_header
        self._due_exchange = context.names.due
        self._lanes = self.lanes_seen.lanes

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()  # kept: each call costs a system call

    def offer(self, source: Source, incoming: Incoming) -> None:
        """Take one message from a window; called by the broker edge."""
        message = incoming.message
        ours = source in OWN_SOURCES or (source is Source.SPILL and is_moved(message, self._due_exchange))
        tenant = message.headers.get("leveret-tenant" if ours else self._tenant_header)
        if ours:
            tenant = tenant if isinstance(tenant, str) else ""
        elif not isinstance(tenant, str) or self._lanes.get(tenant) != message.queue:
            tenant = self._meet(source, tenant, message)
        if source is Source.LANE:
            self.fresh += 1
        self._queue(Job(source, incoming, tenant, self, self.now))

    def pump(self) -> None:
        """Start jobs while there is work, room and no back-pressure."""
        queued, slots, starting = self._queued, self.slots, self._starting
        while queued.length and not self._paused:
            free = slots.free - len(starting)
            if free <= 0 or len(self._tasks) >= self._most_jobs or self._pressed() is not None:
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
            starting.add(job)
            self._in_pass += 1
            self._tasks[job] = self._loop.create_task(self._run(job))

    def tick(self, now: float) -> None:
        """Set the time, in monotonic seconds, for all jobs that come until the next tick."""
        self.now = now

    def set_borrow_limit(self, most: int) -> None:
        """Let one tenant have *most* deliveries in flight where no other waits; reserve the other slots.

        If slots are reserved, several tenants are active. A tenant then starts only some jobs in one pass of
        the loop, so that the next job of another tenant waits for these alone, however large the backlog is.
        """
        reserved = self.slots.capacity - most
        self._paced = reserved > 0
        if reserved != self._reserved:
            self._accounts.set_borrow_limit(most)
            self._reserved, self._stuck = reserved, False
            self.pump()

    # what jobs report, see consumer.flow.take.job.Keeper

    def started(self, job: Job, *, takes_slot: bool) -> None:
        """Free the job's place at the start; unless it takes a slot instead, another job may start."""
        self._starting.discard(job)
        if not takes_slot:
            self.pump()

    def recost(self, job: Job, deliveries: int) -> None:
        """Charge a started job for so many deliveries."""
        self._stuck = False
        self._queued.recost(self._share_of[job.source], job, deliveries)

    def hold(self, job: Job, delay_s: float) -> bool:
        """Start *job* anew after *delay_s*; return False where too many jobs are held, or none may start."""
        return not self._paused and self._held.add(job, delay_s)

    # figures of the jobs in hand

    def done(self) -> dict[str, float]:
        """Return the deliveries that each tenant got so far, over its weight; see :meth:`Accounts.done`."""
        return self._accounts.done()

    def held(self) -> dict[str, int]:
        """Return deliveries in flight by tenant."""
        return self._accounts.held()

    def started_from(self, *sources: Source) -> dict[str, int]:
        """Return by tenant how many jobs of the shares of *sources* were started so far."""
        found: dict[str, int] = {}
        for queue in self._queues_of(*sources):
            for tenant, count in queue.started().items():
                found[tenant] = found.get(tenant, 0) + count
        return found

    def waiting_from(self, source: Source) -> dict[str, int]:
        """Return by tenant how many jobs of the share of *source* wait."""
        return next(self._queues_of(source)).waiting_by_tenant()

    def waiting(self) -> set[str]:
        """Return the tenants that have jobs in hand that were not started."""
        return {tenant for queue in self._queued.queues for tenant in queue.waiting_by_tenant()}

    def standings(self) -> dict[str, Standing]:
        """Return the place of each tenant that waits, over all shares."""
        return self._queued.standings()

    def unstarted(self) -> int:
        """Return how many messages in hand no job works on."""
        return self._queued.length + len(self._held)

    def running(self) -> int:
        """Return how many jobs run now."""
        return len(self._tasks)

    def by_source(self) -> dict[str, int]:
        """Return the unstarted messages by share, for the gauge."""
        labels = dict.fromkeys(SOURCE_LABELS.values())
        waiting = {label: queue.length for label, queue in zip(labels, self._queued.queues, strict=True)}
        return waiting | {"held": len(self._held)}

    # jobs that leave unstarted

    def take_newest(self, tenant: str, keep: int, most: int) -> list[Job]:
        """Take up to *most* of a tenant's newest fresh jobs out of hand, to move them; *keep* stay."""
        return self._queued.take_last(self._share_of[Source.LANE], tenant, keep, min(most, self.moves.room()))

    def take_old(self, before: float) -> list[Job]:
        """Take unstarted jobs that came before *before* out of hand, as many as can be moved at once."""
        room = self.moves.room()
        if not room:
            return []

        def is_old(job: Job) -> bool:
            nonlocal room
            old = job.at < before and job.source is not Source.SUSPECT and room > 0
            room -= old
            return old

        return self._queued.take_out(is_old)

    async def give_back(self) -> int:
        """Give all unstarted messages back to the broker; return how many.

        Messages of the suspect queue stay in hand: there each return counts as the death of a worker, and the
        third return parks the message as poison. It is one message, whose channel has no other.
        """
        jobs = self._take_unstarted(lambda job: job.source is not Source.SUSPECT)
        for job in jobs:
            await job.incoming.ticket.requeue()
        return len(jobs)

    def forget_dead(self) -> None:
        """Drop the messages of channels that died: the broker gives them out again."""
        self._take_unstarted(Job.lost)

    # the worker's life

    def pause(self) -> None:
        """Start nothing more."""
        self._paused = True

    def resume(self) -> None:
        """Start jobs again."""
        self._paused = False
        self.pump()

    def finish_suspects(self) -> None:
        """Start the messages that are not given back, although the intake is paused; not under pressure."""
        if self._pressed() is not None:
            return
        for job in self._take_unstarted(lambda job: job.source is Source.SUSPECT):
            self._accounts.of(job.tenant).charge(job.cost)
            self._tasks[job] = self._loop.create_task(self._run(job))

    async def idle(self) -> None:
        """Return once no job and no move runs."""
        while self._tasks or self.moves.tasks:
            await asyncio.wait({*self._tasks.values(), *self.moves.tasks})

    async def _run(self, job: Job) -> None:
        try:
            await self._handle(job)
        except Exception as error:  # a bug in the handling of bugs: the others go on
            self._context.observe.task_failed("job", error)
        finally:
            self._starting.discard(job)
            self._accounts.ended(job)
            self._stuck = False
            self.ended += 1
            self._tasks.pop(job, None)
            self.pump()

    def _queue(self, job: Job) -> None:
        if self._queued.push(self._share_of[job.source], job):
            self._stuck = False
        self.pump()

    def _queue_again(self, job: Job) -> None:
        job.wait_from(self.now)
        self._stuck = False
        self._queue(job)

    def _take_unstarted(self, wanted: Callable[[Job], bool]) -> list[Job]:
        return self._held.take_out(wanted) + self._queued.take_out(wanted)

    def _meet(self, source: Source, word: object, message: RawMessage) -> str:
        """Return the tenant by which a producer's message is scheduled; *word* is its tenant header."""
        if source is Source.LANE:
            return self.lanes_seen.by_lane(word, message.queue)
        if source is Source.SPILL and message.exchange:  # the default exchange needs no binding of ours
            return self.lanes_seen.by_binding(word, message.queue)
        return self.lanes_seen.otherwise(word)

    def _queues_of(self, *sources: Source) -> Iterator[FairQueue[Job]]:
        return (self._queued.queues[share] for share in {self._share_of[source] for source in sources})

    def _go_on_later(self) -> None:
        """Start more behind the jobs that were started now: by then their deliveries are counted."""
        if not self._passing:
            self._passing = True
            self._loop.call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._in_pass, self._passing = 0, False
        self.pump()

    def _has_room(self, rate: Rate) -> bool:
        """Return whether the worker's rate lets one more job start; if not, look again when it does."""
        now = self._context.clock.now()
        if rate.room(now) > len(self._starting):
            return True
        if self._rate_look is None:
            delay_s = max(rate.opens_at(now) - now, RATE_LOOK_S)
            self._rate_look = self._context.clock.call_later(delay_s, self._look_again)
        return False

    def _look_again(self) -> None:
        self._rate_look = None
        self.pump()
