"""Hold what the broker gave us, choose fairly what starts next, and start it while there is room.

Data flow: windows (edges) -> Intake.offer -> a fair queue per share -> a job task -> Deliverer.handle.
Nothing here awaits: :meth:`Intake.pump` runs whenever something arrived, ended or changed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from consumer.core.fairness import FairQueue, Standing
from consumer.flow.world import World
from consumer.ports import Incoming


class Source(StrEnum):
    """The kind of queue that a message came from."""

    LANE = "lane"
    INBOX = "inbox"
    DUE = "due"
    STRAY = "stray"
    REPLAY = "replay"
    SPILL = "spill"
    SUSPECT = "suspect"
    OVERFLOW = "overflow"
    EXPIRED = "expired"


#: Sources whose messages are deliveries of ours; the others hold a producer's words.
OURS = frozenset({Source.DUE, Source.STRAY, Source.REPLAY})

#: Sources that share one place in the rotation. Each group gets its turn while it has work.
SHARES: tuple[frozenset[Source], ...] = (
    frozenset({Source.LANE, Source.INBOX}),
    frozenset({Source.DUE, Source.STRAY}),
    frozenset({Source.REPLAY}),
    frozenset({Source.SPILL}),
    frozenset({Source.SUSPECT}),
)


@dataclass(slots=True, eq=False)
class Job:
    """One message in hand."""

    source: Source
    incoming: Incoming
    tenant: str
    counted: bool = False  #: started, and its first request has no slot yet
    task: asyncio.Task[None] | None = None  #: that works on it
    reserved: bool = False  #: it was held here until a time that its endpoint's clock gave it


class Slots:
    """The global bound on HTTP requests in flight. First come, first served."""

    def __init__(self, capacity: int, on_free: Callable[[], None]) -> None:
        self.free = capacity
        self.capacity = capacity
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._on_free = on_free

    async def acquire(self) -> None:
        """Take a slot, waiting in line when none is free."""
        if self.free > 0:
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a slot to the next in line, or back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1
        self._on_free()


class Intake:
    """Windows, the fair order between them, and the jobs that run."""

    def __init__(self, world: World, handle: Callable[[Job], Awaitable[None]]) -> None:
        self._world = world
        self._handle = handle
        self._queues: tuple[FairQueue[Job], ...] = tuple(FairQueue() for _ in SHARES)
        self._share_of = {source: i for i, sources in enumerate(SHARES) for source in sources}
        self._turn = 0
        self._queued = 0  #: jobs in all queues
        self._starting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: dict[Job, Callable[[], None]] = {}
        self._paused = False
        self.slots = Slots(world.bounds.concurrency, self.pump)
        self._most_jobs = 4 * world.bounds.concurrency

    def offer(self, source: Source, incoming: Incoming) -> None:
        """Take one message from a window; called by the broker edge."""
        tenant_header = "leveret-tenant" if source in OURS else self._world.decode.tenant_header
        tenant = incoming.message.headers.get(tenant_header)
        job = Job(source, incoming, tenant if isinstance(tenant, str) else "")
        self._push(job)
        self.pump()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The loop, asked for once: asking costs a system call, and there is a job for every message."""
        return asyncio.get_running_loop()

    def pump(self) -> None:
        """Start jobs while there is work, room and no back-pressure."""
        while (
            self._queued
            and not self._paused
            and self.slots.free - self._starting > 0
            and len(self._tasks) < self._most_jobs
            and self._world.publisher.pressed() is None
        ):
            job = self._next()
            if job is None:
                return
            job.counted = True
            self._starting += 1
            job.task = self._loop.create_task(self._run(job))
            self._tasks.add(job.task)

    def under_way(self, job: Job) -> None:
        """The job reached its requests or will make none: its place at the start is free."""
        if job.counted:
            job.counted = False
            self._starting -= 1

    def hold(self, job: Job, delay_s: float) -> bool:
        """Look at *job* again after *delay_s* without giving it back; False when too many are held."""
        if len(self._held) >= self._world.bounds.due_hold or self._paused:
            return False
        self._held[job] = self._world.clock.call_later(delay_s, lambda: self._unhold(job))
        return True

    def unstarted(self) -> int:
        """Messages in hand that no job works on."""
        return self._queued + len(self._held)

    def by_source(self) -> dict[str, int]:
        """Unstarted messages by share, for the gauge."""
        counts = {"/".join(sorted(s)): len(q) for s, q in zip(SHARES, self._queues, strict=True)}
        return counts | {"held": len(self._held)}

    def standings(self) -> dict[str, Standing]:
        """Where every tenant stands that waits for its turn, over all shares."""
        found: dict[str, Standing] = {}
        for queue in self._queues:
            for tenant, standing in queue.standings().items():
                name = tenant or self._world.decode.default_tenant or ""
                found[name] = standing.beside(found[name]) if name in found else standing
        return found

    def pause(self) -> None:
        """Start nothing more."""
        self._paused = True

    def resume(self) -> None:
        """Start jobs again."""
        self._paused = False
        self.pump()

    async def give_back(self) -> int:
        """Give back to the broker all that was not started; return how many messages."""
        jobs = list(self._held)
        for call_off in self._held.values():
            call_off()
        self._held.clear()
        for queue in self._queues:
            jobs += queue.drain()
        self._queued = 0
        for job in jobs:
            await job.incoming.ticket.requeue()
        return len(jobs)

    def forget_dead(self) -> None:
        """Drop what came by channels that died: the broker gives it out again."""
        for job in [job for job in self._held if not job.incoming.ticket.alive()]:
            self._held.pop(job)()
        for queue in self._queues:
            for job in queue.drain():
                if job.incoming.ticket.alive():
                    queue.push(job.tenant, job)
        self._queued = sum(map(len, self._queues))

    async def idle(self) -> None:
        """Return once no job runs."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def running(self) -> int:
        """Jobs that run now."""
        return len(self._tasks)

    async def _run(self, job: Job) -> None:
        try:
            await self._handle(job)
        except Exception as error:  # a bug in the handling of bugs: the others go on
            self._world.observe.task_failed("job", error)
        finally:
            self.under_way(job)
            if job.task is not None:
                self._tasks.discard(job.task)
            self.pump()

    def _push(self, job: Job) -> None:
        self._queues[self._share_of[job.source]].push(job.tenant, job)
        self._queued += 1

    def _next(self) -> Job | None:
        for _ in self._queues:
            queue = self._queues[self._turn]
            self._turn = (self._turn + 1) % len(self._queues)
            while queue:
                job = queue.pop()
                self._queued -= 1
                if job.incoming.ticket.alive():
                    return job
        return None

    def _unhold(self, job: Job) -> None:
        if self._held.pop(job, None) is not None:
            self._push(job)
            self.pump()
