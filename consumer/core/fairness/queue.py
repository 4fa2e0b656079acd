"""Choose the tenant whose job is next, so that no tenant waits behind another's flood.

Data flow: windows push jobs -> Scheduler -> FairQueue, one per share -> Scheduler pops when a slot is free.

Each tenant has a tag: the virtual time at which its next job should start. The queue serves the smallest tag
and moves it on by the job's deliveries over the tenant's weight; virtual time is the tag served last. One
round is virtual time 1: time for one delivery of each waiting tenant of weight 1. A tenant that did not wait
before begins at the present time, so it goes before the backlog of others; a tenant that was served ahead has
a later tag, and so pays it back.

Source: S1-8, S1-16; start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, NamedTuple, TypeVar

from consumer.core.fairness.accounts import REMEMBERED, Account, Accounts, Claim

#: Jobs of one tenant in a row while a tenant waits that was not served ahead. Source: S1-8.
MAX_CONSECUTIVE: Final = 3
#: Priority of a tenant that was just served, and of the tenant that waits longest. Source: S1-8.
LOWEST_PRIORITY: Final = 5
HIGHEST_PRIORITY: Final = 1
#: Rounds without service after which a tenant over its cap is served like any other tenant.
FULLY_AGED: Final = LOWEST_PRIORITY - HIGHEST_PRIORITY
#: Rounds for which virtual time may stay the same, while tenants come that did not wait before.
STANDSTILL: Final = 2


def priority_after(rounds: int) -> int:
    """Return a tenant's priority, 5 (low) to 1 (high), after *rounds* rounds without service.

    Raises:
        ValueError: *rounds* is negative.

    Source: S1-8; tests/data/priority.json.
    """
    if rounds < 0:
        raise ValueError(f"rounds cannot be negative, got {rounds}")
    return max(HIGHEST_PRIORITY, LOWEST_PRIORITY - rounds)


class Standing(NamedTuple):
    """The place of a tenant with waiting jobs."""

    waiting: int  #: its jobs
    rounds: int  #: rounds since it was last served, or since it began to wait
    consecutive: int  #: the newest jobs in a row that were its own; 0 when the last job was another tenant's

    def beside(self, other: Standing) -> Standing:
        """Return both places as one: of two shares, or of two tenants that have one label."""
        return Standing(
            self.waiting + other.waiting,
            max(self.rounds, other.rounds),
            max(self.consecutive, other.consecutive),
        )


C = TypeVar("C", bound=Claim)


@dataclass(slots=True, eq=False)
class TenantQueue(Generic[C]):
    """The jobs of one tenant in one share."""

    account: Account
    step: float  #: virtual time of one delivery: one over the weight
    tag: float  #: virtual time at which its next job should start
    since: float  #: virtual time when it was last served or began to wait
    jobs: deque[C] = field(default_factory=deque)
    cost: int = 1  #: deliveries of its last job: the next one is expected to cost as many
    started: int = 0  #: jobs that were popped, since the queue was opened

    def begin(self, now: float) -> None:
        """Begin to wait at virtual time *now*: the time without jobs earns nothing."""
        self.since = now
        if self.tag < now:  # noqa: PLR1730 - max() costs more than all the rest of the line
            self.tag = now

    def serve(self, now: float) -> C:
        """Take the next job at virtual time *now*, and charge its expected cost."""
        job, cost = self.jobs.popleft(), self.cost
        if job.cost != cost:
            job.charge(cost)
        self.account.charge(cost)
        self.started += 1
        self.since = now
        self.tag += cost * self.step
        return job

    def recost(self, cost: int, more: int) -> None:
        """Charge *more* deliveries for a job that was served; the next one is expected to cost *cost*."""
        self.cost = cost
        self.tag += more * self.step

    def limit_credit(self, tag: float) -> None:
        """Raise the tag to *tag* at least."""
        self.tag = max(self.tag, tag)

    def take_out(self, unwanted: Callable[[C], bool]) -> list[C]:
        """Take out the jobs that are *unwanted*; ask once for each job, the oldest first."""
        kept, taken = deque[C](), list[C]()
        for job in self.jobs:
            (taken if unwanted(job) else kept).append(job)
        self.jobs = kept
        return taken


class FairQueue(Generic[C]):
    """Jobs of one share; push and pop take time with the logarithm of the tenants that wait."""

    def __init__(self, accounts: Accounts, max_consecutive: int = MAX_CONSECUTIVE) -> None:
        """Start empty.

        Args:
            accounts: Shared by all queues of a scheduler.
            max_consecutive: Jobs of one tenant in a row while another tenant waits, at least 1.

        Raises:
            ValueError: *max_consecutive* is below 1.
        """
        if max_consecutive < 1:
            raise ValueError(f"a turn has at least one job, got {max_consecutive}")
        self.length = 0  #: jobs that wait
        self._accounts = accounts
        self._max_consecutive = max_consecutive
        self._tenants: dict[str, TenantQueue[C]] = {}
        self._heap: list[tuple[float, int, TenantQueue[C]]] = []  # each tenant queue with jobs, once
        self._weights = 0.0  # of the tenants in the heap
        self._order = 0  # breaks ties: the tenant that was served longest ago comes first
        self._now = 0.0  # virtual time
        self._still = 0  # jobs that were served at this virtual time
        self._last: TenantQueue[C] | None = None
        self._in_a_row = 0
        self._forget_at = REMEMBERED

    def push(self, job: C) -> bool:
        """Add a job behind the other jobs of its tenant; return whether it is the only one."""
        tenant = self._tenants.get(job.tenant)
        if tenant is None:
            tenant = self._open(job.tenant)
        jobs = tenant.jobs
        alone = not jobs
        if alone:
            tenant.begin(self._now)
            self._weights += tenant.account.weight
            self._order += 1
            heappush(self._heap, (tenant.tag, self._order, tenant))
        jobs.append(job)
        self.length += 1
        return alone

    def pop(self, *, scarce: bool = False) -> C | None:
        """Take the next job, or None where no tenant may start one.

        Args:
            scarce: Only tenants under their cap may start.
        """
        heap = self._heap
        if not heap:
            return None
        tag, _, tenant = heap[0]
        account = tenant.account
        if len(heap) == 1:
            if scarce and account.in_flight >= self._accounts.borrow:
                return None
            job = self._serve(tenant)  # its heap entry is corrected when another tenant joins the heap
            if not tenant.jobs:
                heap.clear()
                self._rest(tenant)
            return job
        if (
            tag < tenant.tag
            or account.in_flight >= self._accounts.floor
            or (tenant is self._last and self._in_a_row >= self._max_consecutive)
        ):
            return self._pop_sought(scarce=scarce)
        job = self._serve(tenant)
        if tenant.jobs:
            self._order += 1
            heapreplace(heap, (tenant.tag, self._order, tenant))
        else:
            heappop(heap)
            self._weights -= account.weight
        return job

    def recost(self, job: C, cost: int) -> None:
        """Charge a popped job for *cost* deliveries, and expect the tenant's next job to cost as many."""
        cost = max(1, cost)
        more = cost - job.cost
        job.charge(cost)
        self._accounts.of(job.tenant).charge(more)
        tenant = self._tenants.get(job.tenant)
        if tenant is not None:
            tenant.recost(cost, more)  # its heap entry is corrected when it comes to the top

    def take_out(self, unwanted: Callable[[C], bool]) -> list[C]:
        """Take out all jobs that are *unwanted*, as if they had never been pushed."""
        taken = [job for _, _, tenant in self._heap for job in tenant.take_out(unwanted)]
        self._heap = [entry for entry in self._heap if entry[2].jobs]
        heapify(self._heap)
        self._weights = sum(entry[2].account.weight for entry in self._heap)
        self.length -= len(taken)
        return taken

    def take_last(self, name: str, keep: int, most: int) -> list[C]:
        """Take out up to *most* of a tenant's newest jobs; *keep* of its jobs, at least 1, stay."""
        tenant = self._tenants.get(name)
        count = 0 if tenant is None else min(most, len(tenant.jobs) - max(1, keep))
        if tenant is None or count <= 0:
            return []
        self.length -= count
        return [tenant.jobs.pop() for _ in range(count)]

    def tenants(self) -> int:
        """Return how many tenants wait."""
        return len(self._heap)

    def waiting_by_tenant(self) -> dict[str, int]:
        """Return how many jobs of each tenant wait, of those that have any."""
        return {name: len(tenant.jobs) for name, tenant in self._tenants.items() if tenant.jobs}

    def started(self) -> dict[str, int]:
        """Return how many jobs of each tenant were popped; a tenant that was removed begins anew at 0."""
        return {name: tenant.started for name, tenant in self._tenants.items()}

    def standings(self) -> dict[str, Standing]:
        """Return the place of each tenant with waiting jobs; takes time with their number."""
        return {
            name: Standing(
                len(tenant.jobs),
                int(self._now - tenant.since),
                self._in_a_row if tenant is self._last else 0,
            )
            for name, tenant in self._tenants.items()
            if tenant.jobs
        }

    def _open(self, name: str) -> TenantQueue[C]:
        if len(self._tenants) >= self._forget_at:
            self._forget()
        account = self._accounts.of(name)
        account.attach()
        opened = self._tenants[name] = TenantQueue[C](account, 1.0 / account.weight, self._now, self._now)
        return opened

    def _forget(self) -> None:
        """Remove the tenants without jobs, but for those that were served ahead and have yet to pay back."""
        now, known = self._now, self._tenants
        self._tenants = {name: tenant for name, tenant in known.items() if tenant.jobs or tenant.tag > now}
        for name in known.keys() - self._tenants.keys():
            known[name].account.detach()
        self._forget_at = 2 * len(self._tenants) + REMEMBERED

    def _rest(self, last: TenantQueue[C]) -> None:
        """Clear every debt once no tenant waits: *last* was served alone."""
        self._weights = 0.0
        self._now = max(self._now, last.tag)
        self._still = 0

    def _pop_sought(self, *, scarce: bool) -> C | None:
        """Take the next job by all the rules."""
        tenant = self._seek(scarce=scarce)
        if tenant is None:
            return None
        job = self._serve(tenant)
        if tenant.jobs:
            self._order += 1
            heappush(self._heap, (tenant.tag, self._order, tenant))
        else:
            self._weights -= tenant.account.weight
            if not self._heap:
                self._rest(tenant)
        return job

    def _go_on(self) -> None:
        """Move virtual time on to the next tenant that waits.

        A new tenant may begin at the present time, before the tenants that were just served. While ever new
        tenants come, virtual time would not move, and they would all pass the tenants that have waited.
        """
        waiting = (tenant.tag for _, _, tenant in self._heap if tenant.tag > self._now)
        self._now, self._still = min(waiting, default=self._now + 1.0), 0

    def _serve(self, tenant: TenantQueue[C]) -> C:
        if tenant is self._last:
            self._in_a_row += 1
        else:
            self._last, self._in_a_row = tenant, 1
        self.length -= 1
        if tenant.tag > self._now:
            self._now, self._still = tenant.tag, 0
        else:
            self._still += 1
            if self._still > STANDSTILL * (len(self._heap) + 1):
                self._go_on()
        return tenant.serve(self._now)

    def _seek(self, *, scarce: bool) -> TenantQueue[C] | None:
        """Take the tenant out of the heap that is next by all the rules, or return None."""
        heap, passed = self._heap, list[TenantQueue[C]]()
        found: TenantQueue[C] | None = None
        second: TenantQueue[C] | None = None  # over its cap, and served when no other tenant waits
        while heap and found is None:
            tag, order, tenant = heap[0]
            if tag < tenant.tag:  # charged since it was put there
                heapreplace(heap, (tenant.tag, order, tenant))
                continue
            heappop(heap)
            if self._may_start(tenant, scarce=scarce, others=bool(heap or passed)):
                found = tenant
                break
            passed.append(tenant)
            if second is None:
                second = tenant
        if found is None and not scarce:
            found = second
            passed = [tenant for tenant in passed if tenant is not found]
        for tenant in passed:
            if found is not None:  # a tenant that was passed over has credit for one batch at most
                tenant.limit_credit(found.tag - self._max_consecutive * max(tenant.step, found.step))
            self._order += 1
            heappush(heap, (tenant.tag, self._order, tenant))
        return found

    def _may_start(self, tenant: TenantQueue[C], *, scarce: bool, others: bool) -> bool:
        if self._is_batch_full(tenant):
            return False
        if not self._accounts.is_over(tenant.account, self._weights):
            return True
        return not scarce and (not others or self._now - tenant.since >= FULLY_AGED)

    def _is_batch_full(self, tenant: TenantQueue[C]) -> bool:
        """Return whether the tenant, out of the heap, has to let the next one pass.

        A tenant that was served ahead by more than a batch is not the next: it pays back what it cost.
        """
        if tenant is not self._last or self._in_a_row < self._max_consecutive or not self._heap:
            return False
        return self._heap[0][0] <= tenant.tag + self._max_consecutive * tenant.step
