"""Simulate twenty workers over lists instead of queues: the product's decisions, and time as a number.

Data flow: Arrival -> lane or spill queue -> the window of a worker with room -> its scheduler -> started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol
from zlib import crc32

from bench.fairness_sim.load import Arrival
from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.noisy_tenants import (
    Came,
    LoadSample,
    NoisyTenantMeter,
    NoisyTenantRule,
    spill_index,
)
from consumer.core.fairness.scheduler import Scheduler
from consumer.flow.take.reroute import ENDED_PER_MOVE, IDLE_S, KEPT_IN_HAND, LEAST_MOVED, LOOK_S, MOVE_S

LANE, SPILL = 0, 1  #: shares
PARTS = (0.45, 0.15)  #: of fresh and spilled events; the others of a worker have no work here


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large the cluster is."""

    workers: int = 20
    slots: int = 8  #: of each worker
    lanes: int = 16
    spill_queues: int = 4

    @property
    def window(self) -> int:
        """Messages of one queue that a worker has in hand at most."""
        return 2 * self.slots


@dataclass(slots=True, eq=False)
class Work:
    """One event."""

    tenant: str
    at: float  #: published
    latency_s: float
    queue: Queue
    cost: int = 1

    def charge(self, deliveries: int) -> None:
        """Set the cost."""
        self.cost = deliveries


@dataclass(slots=True, eq=False)
class Queue:
    """One queue: its messages, and how many of them each worker has in hand."""

    share: int
    name: str
    window: int
    ready: deque[Work] = field(default_factory=deque)
    in_hand: list[int] = field(default_factory=list)
    next: int = 0  #: the worker that is served next

    def taker(self) -> int | None:
        """Return the next worker in turn with room in its window."""
        workers = len(self.in_hand)
        for step in range(workers):
            worker = (self.next + step) % workers
            if self.in_hand[worker] < self.window:
                self.next = worker + 1
                return worker
        return None


class Hands(Protocol):
    """The unstarted jobs of one worker."""

    def push(self, work: Work) -> None:
        """Take one in."""

    def pop(self, free: int) -> Work | None:
        """Choose the jobs that start in *free* slots."""

    def ended(self, work: Work) -> None:
        """It came to its end."""

    def left(self) -> list[Work]:
        """Return the unstarted jobs."""


class InOrder:
    """First come, first served."""

    def __init__(self) -> None:
        self._works: deque[Work] = deque()

    def push(self, work: Work) -> None:
        """Take one in."""
        self._works.append(work)

    def pop(self, free: int) -> Work | None:
        """Choose the oldest."""
        return self._works.popleft() if free and self._works else None

    def ended(self, work: Work) -> None:
        """Nothing follows from it."""

    def left(self) -> list[Work]:
        """Return the unstarted jobs."""
        return list(self._works)


class Fair:
    """The scheduler and the noise rule of one worker."""

    def __init__(self, shape: Shape) -> None:
        caps = Caps(capacity=shape.slots)
        self.accounts = Accounts(caps)
        self.queued: Scheduler[Work] = Scheduler(PARTS, self.accounts)
        self.meter = NoisyTenantMeter(NoisyTenantRule(held=shape.slots * 0.1))
        self.ends = 0  #: since jobs were moved last
        self._reserved = caps.reserved
        self._started: dict[str, int] = {}

    def push(self, work: Work) -> None:
        """Take one in."""
        self.queued.push(work.queue.share, work)

    def pop(self, free: int) -> Work | None:
        """Choose by the product's rules."""
        return self.queued.pop(scarce=free <= self._reserved) if free else None

    def ended(self, work: Work) -> None:
        """Take it off its tenant's account."""
        self.accounts.ended(work)
        self.ends += 1

    def left(self) -> list[Work]:
        """Take out the unstarted jobs."""
        return self.queued.take_out(lambda _work: True)

    def came(self, lane_of: dict[str, str]) -> Came:
        """Count the events that came by the lanes since the last look, or are in hand."""
        counts, started = self.queued.queues[LANE].waiting_by_tenant(), self.queued.queues[LANE].started()
        for tenant, count in started.items():
            counts[tenant] = counts.get(tenant, 0) + max(0, count - self._started.get(tenant, 0))
        self._started = started
        return Came(counts, lambda tenant: lane_of.get(tenant, ""))


class Cluster:
    """All of it; :meth:`run` goes through the time."""

    def __init__(self, shape: Shape, *, fair: bool) -> None:
        self.waits: list[tuple[float, str, float]] = []  #: published, tenant, seconds until it started
        self.spills = 0  #: times that a tenant was led around the lanes
        self._shape = shape
        self._fair = [Fair(shape) for _ in range(shape.workers)] if fair else []
        self._hands: list[Hands] = [*self._fair] or [InOrder() for _ in range(shape.workers)]
        self._free = [shape.slots] * shape.workers
        self._lanes = [self._queue(LANE, f"lane {n}") for n in range(shape.lanes if fair else 1)]
        self._spills = [self._queue(SPILL, f"spill {n}") for n in range(shape.spill_queues)]
        self._lane_of: dict[str, str] = {}
        self._bound: dict[str, float] = {}  #: tenant -> when its spill queue was last seen with messages
        self._ends: list[tuple[float, int, int, Work]] = []
        self._order = 0

    def run(self, arrivals: Iterable[Arrival]) -> None:
        """Let all events come, and end the started jobs; the remaining ones never start."""
        look_at = move_at = 0.0
        for arrival in arrivals:
            now = arrival.at
            while self._ends and self._ends[0][0] <= now:
                self._end()
            if now >= move_at:
                move_at = now + MOVE_S
                self._move(now)
            if now >= look_at:
                look_at = now + LOOK_S
                self._look(now)
            self._publish(arrival)

    def unstarted(self, now: float) -> list[tuple[float, str, float]]:
        """Return the jobs that are unstarted at *now*, as :attr:`waits` has them: with their waits so far."""
        ready = [work for queue in (*self._lanes, *self._spills) for work in queue.ready]
        return [(w.at, w.tenant, now - w.at) for w in (*ready, *(w for h in self._hands for w in h.left()))]

    def _queue(self, share: int, name: str) -> Queue:
        return Queue(share, name, self._shape.window, in_hand=[0] * self._shape.workers)

    def _publish(self, arrival: Arrival) -> None:
        tenant = arrival.tenant
        lane = self._lanes[crc32(tenant.encode()) % len(self._lanes)]
        self._lane_of[tenant] = lane.name
        queue = self._spill_of(tenant) if tenant in self._bound else lane
        self._put(Work(tenant, arrival.at, arrival.latency_s, queue), arrival.at)

    def _put(self, work: Work, now: float) -> None:
        worker = None if work.queue.ready else work.queue.taker()
        if worker is None:
            work.queue.ready.append(work)
        else:
            self._hand(work, worker, now)

    def _hand(self, work: Work, worker: int, now: float) -> None:
        work.queue.in_hand[worker] += 1
        self._hands[worker].push(work)
        self._pump(worker, now)

    def _pump(self, worker: int, now: float) -> None:
        hands = self._hands[worker]
        while (work := hands.pop(self._free[worker])) is not None:
            self._free[worker] -= 1
            self._order += 1
            self.waits.append((work.at, work.tenant, now - work.at))
            heappush(self._ends, (now + work.latency_s, self._order, worker, work))

    def _end(self) -> None:
        now, _, worker, work = heappop(self._ends)
        self._free[worker] += 1
        self._hands[worker].ended(work)
        self._acked(work.queue, worker, now)
        self._pump(worker, now)

    def _acked(self, queue: Queue, worker: int, now: float) -> None:
        queue.in_hand[worker] -= 1
        if queue.ready:
            self._hand(queue.ready.popleft(), worker, now)

    def _spill_of(self, tenant: str) -> Queue:
        return self._spills[spill_index(tenant, len(self._spills))]

    def _look(self, now: float) -> None:
        """Reroute each noisy tenant; return each rerouted tenant whose spill queue is empty to its lane."""
        stands = {lane.name: len(lane.ready) for lane in self._lanes}
        for fair in self._fair:
            came = fair.came(self._lane_of)
            behind = {t for t, lane in came.leaders(1).items() if stands[lane] >= self._shape.window}
            waiting = {tenant for queue in fair.queued.queues for tenant in queue.waiting_by_tenant()}
            sample = LoadSample(held=fair.accounts.held(), backlogged=behind, others_wait=len(waiting) > 1)
            for noisy in fair.meter.look(sample, LOOK_S, self._bound.keys()):
                self._bound[noisy.tenant] = now
                self.spills += 1
        for tenant, seen in list(self._bound.items()):
            if self._spill_of(tenant).ready:
                self._bound[tenant] = now
            elif now - seen > IDLE_S:
                del self._bound[tenant]

    def _move(self, now: float) -> None:
        """Move newest jobs of bound tenants out of the windows, one for every second that ended."""
        keep = max(1, int(self._shape.window * KEPT_IN_HAND))
        for worker, fair in enumerate(self._fair):
            most, fair.ends = max(LEAST_MOVED, fair.ends // ENDED_PER_MOVE), 0
            for tenant in self._bound:
                for work in fair.queued.take_last(LANE, tenant, keep, most):
                    most -= 1
                    left, work.queue = work.queue, self._spill_of(tenant)
                    self._put(work, now)
                    self._acked(left, worker, now)
