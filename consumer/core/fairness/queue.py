"""Choose whose job is next, so that no tenant waits behind another's flood.

Data flow: windows push what they took -> core.shares -> FairQueue -> popped when a slot is free.

Each tenant has a tag: the virtual time at which its next job should start. The smallest tag is served and
moves on by the job's deliveries over the tenant's weight; virtual time is the tag served last. One round is
virtual time 1: time for one delivery of each waiting tenant of weight 1. Who has not waited lately begins at
the present time, so a quiet tenant goes before the backlog of others, and who was served ahead pays it back.

Source: S1-8, S1-16; start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, NamedTuple, TypeVar

from consumer.core.fairness.accounts import REMEMBERED, Account, Accounts, Caps, Claim

#: Jobs of one tenant in a row while another waits that was not served ahead. Source: S1-8.
MAX_CONSECUTIVE: Final = 3
#: Priority of a tenant that was just served, and of one that waits longest. Source: S1-8.
LOWEST_PRIORITY: Final = 5
HIGHEST_PRIORITY: Final = 1
#: Rounds without service after which a tenant over its cap is served like any other.
FULLY_AGED: Final = LOWEST_PRIORITY - HIGHEST_PRIORITY
#: Rounds for which virtual time may stand still: while tenants come that did not wait before.
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
    """Where a tenant with waiting jobs stands."""

    waiting: int  #: its jobs
    rounds: int  #: rounds since it was last served, or since it began to wait
    consecutive: int  #: jobs in a row that were its own, up to now; 0 when the last one was another's

    def beside(self, other: Standing) -> Standing:
        """Return what holds for both together: of two queues, or of two tenants that share a label."""
        return Standing(
            self.waiting + other.waiting,
            max(self.rounds, other.rounds),
            max(self.consecutive, other.consecutive),
        )


C = TypeVar("C", bound=Claim)


@dataclass(slots=True, eq=False)
class _Line(Generic[C]):
    """The jobs of one tenant in one queue."""

    account: Account
    step: float  #: virtual time of one delivery: one over the weight
    tag: float  #: virtual time at which its next job should start
    since: float  #: virtual time when it was last served or began to wait
    jobs: deque[C] = field(default_factory=deque)
    cost: int = 1  #: deliveries of its last job: what the next one is taken to cost
    started: int = 0  #: jobs that were popped, since the line was opened


class FairQueue(Generic[C]):
    """Jobs of one share; push and pop take time with the logarithm of the tenants that wait."""

    def __init__(self, accounts: Accounts | None = None, max_consecutive: int = MAX_CONSECUTIVE) -> None:
        """Start empty.

        Args:
            accounts: Shared by all queues of a scheduler.
            max_consecutive: Jobs of one tenant in a row while another waits, at least 1.
        """
        if max_consecutive < 1:
            raise ValueError(f"a turn has at least one job, got {max_consecutive}")
        self.length = 0  #: jobs that wait
        self._accounts = Accounts(Caps()) if accounts is None else accounts
        self._max_consecutive = max_consecutive
        self._lines: dict[str, _Line[C]] = {}
        self._heap: list[tuple[float, int, _Line[C]]] = []  # every line with jobs, once
        self._weights = 0.0  # of the lines in the heap
        self._order = 0  # breaks ties: who was served longest ago comes first
        self._now = 0.0  # virtual time
        self._still = 0  # jobs that were served while it stood still
        self._last: _Line[C] | None = None
        self._in_a_row = 0
        self._forget_at = REMEMBERED

    def push(self, job: C) -> bool:
        """Add a job behind the other jobs of its tenant; return whether it is the only one."""
        line = self._lines.get(job.tenant)
        if line is None:
            line = self._open(job.tenant)
        jobs = line.jobs
        alone = not jobs
        if alone:
            line.since = now = self._now
            if line.tag < now:  # noqa: PLR1730 - max() costs more than all the rest of the line
                line.tag = now
            self._weights += line.account.weight
            self._order += 1
            heappush(self._heap, (line.tag, self._order, line))
        jobs.append(job)
        self.length += 1
        return alone

    def pop(self, *, scarce: bool = False) -> C | None:
        """Take the next job, or None where nobody may start one.

        Args:
            scarce: Only tenants under their cap may start.
        """
        heap = self._heap
        if not heap:
            return None
        tag, _, line = heap[0]
        account = line.account
        if len(heap) == 1:
            if scarce and account.in_flight >= self._accounts.borrow:
                return None
            job = self._serve(line)  # its place in the heap is set right when there is somebody beside it
            if not line.jobs:
                heap.clear()
                self._rest(line)
            return job
        if (
            tag < line.tag
            or account.in_flight >= self._accounts.floor
            or (line is self._last and self._in_a_row >= self._max_consecutive)
        ):
            return self._pop_sought(scarce=scarce)
        job = self._serve(line)
        if line.jobs:
            self._order += 1
            heapreplace(heap, (line.tag, self._order, line))
        else:
            heappop(heap)
            self._weights -= account.weight
        return job

    def recost(self, job: C, cost: int) -> None:
        """A popped job turned out to cost *cost* deliveries: charge the difference, expect as much next."""
        cost = max(1, cost)
        more, job.cost = cost - job.cost, cost
        self._accounts.of(job.tenant).in_flight += more
        line = self._lines.get(job.tenant)
        if line is not None:
            line.cost = cost
            line.tag += more * line.step  # its place in the heap is set right when it comes to the top

    def take_out(self, unwanted: Callable[[C], bool]) -> list[C]:
        """Take out all jobs that are *unwanted*, as if they had never been pushed."""
        taken: list[C] = []
        for _, _, line in self._heap:
            kept = deque[C]()
            for job in line.jobs:
                (taken if unwanted(job) else kept).append(job)
            line.jobs = kept
        self._heap = [entry for entry in self._heap if entry[2].jobs]
        heapify(self._heap)
        self._weights = sum(entry[2].account.weight for entry in self._heap)
        self.length -= len(taken)
        return taken

    def take_last(self, tenant: str, keep: int, most: int) -> list[C]:
        """Take out up to *most* of a tenant's newest jobs; *keep* of its jobs, at least 1, stay."""
        line = self._lines.get(tenant)
        count = 0 if line is None else min(most, len(line.jobs) - max(1, keep))
        if line is None or count <= 0:
            return []
        self.length -= count
        return [line.jobs.pop() for _ in range(count)]

    def waiting(self, tenant: str) -> int:
        """Return how many jobs of one tenant wait."""
        line = self._lines.get(tenant)
        return 0 if line is None else len(line.jobs)

    def tenants(self) -> int:
        """Return how many tenants wait."""
        return len(self._heap)

    def waiting_by_tenant(self) -> dict[str, int]:
        """Return how many jobs of each tenant wait, of those that have any."""
        return {tenant: len(line.jobs) for tenant, line in self._lines.items() if line.jobs}

    def started(self) -> dict[str, int]:
        """Return how many jobs of each tenant were popped; a tenant long gone begins anew at 0."""
        return {tenant: line.started for tenant, line in self._lines.items()}

    def standings(self) -> dict[str, Standing]:
        """Return where every tenant with waiting jobs stands; takes time with their number."""
        return {
            tenant: Standing(
                len(line.jobs),
                int(self._now - line.since),
                self._in_a_row if line is self._last else 0,
            )
            for tenant, line in self._lines.items()
            if line.jobs
        }

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return self.length

    def _open(self, tenant: str) -> _Line[C]:
        if len(self._lines) >= self._forget_at:
            self._forget()
        account = self._accounts.of(tenant)
        account.lines += 1
        line = self._lines[tenant] = _Line[C](account, 1.0 / account.weight, self._now, self._now)
        return line

    def _forget(self) -> None:
        """Forget the lines without jobs, but for those that were served ahead and have not paid back."""
        now, lines = self._now, self._lines
        self._lines = {name: line for name, line in lines.items() if line.jobs or line.tag > now}
        for name in lines.keys() - self._lines.keys():
            lines[name].account.lines -= 1
        self._forget_at = 2 * len(self._lines) + REMEMBERED

    def _rest(self, line: _Line[C]) -> None:
        """Nobody waits any more, and nobody owes anything: the last one, *line*, was served alone."""
        self._weights = 0.0
        self._now = max(self._now, line.tag)
        self._still = 0

    def _pop_sought(self, *, scarce: bool) -> C | None:
        """Take the next job by all the rules."""
        line = self._seek(scarce=scarce)
        if line is None:
            return None
        job = self._serve(line)
        if line.jobs:
            self._order += 1
            heappush(self._heap, (line.tag, self._order, line))
        else:
            self._weights -= line.account.weight
            if not self._heap:
                self._rest(line)
        return job

    def _go_on(self) -> None:
        """Let virtual time go on to whoever waits next.

        Everybody new may begin at the present time, before those who were just served. While ever new tenants
        come it would stand still, and who has waited would wait for all of them.
        """
        waiting = (line.tag for _, _, line in self._heap if line.tag > self._now)
        self._now, self._still = min(waiting, default=self._now + 1.0), 0

    def _serve(self, line: _Line[C]) -> C:
        if line is self._last:
            self._in_a_row += 1
        else:
            self._last, self._in_a_row = line, 1
        job, cost = line.jobs.popleft(), line.cost
        self.length -= 1
        line.started += 1
        job.cost = cost
        line.account.in_flight += cost
        if line.tag > self._now:
            self._now, self._still = line.tag, 0
        else:
            self._still += 1
            if self._still > STANDSTILL * (len(self._heap) + 1):
                self._go_on()
        line.since = self._now
        line.tag += cost * line.step
        return job

    def _seek(self, *, scarce: bool) -> _Line[C] | None:
        """Take the line out of the heap that is next by all the rules, or None where there is none."""
        heap, passed = self._heap, list[_Line[C]]()
        found: _Line[C] | None = None
        second: _Line[C] | None = None  # over its cap, and served when nobody else waits
        while heap and found is None:
            _, order, line = heap[0]
            if heap[0][0] < line.tag:  # charged since it was put there
                heapreplace(heap, (line.tag, order, line))
                continue
            heappop(heap)
            if self._may_start(line, scarce=scarce, others=bool(heap or passed)):
                found = line
                break
            passed.append(line)
            if second is None:
                second = line
        if found is None and not scarce:
            found = second
            passed = [line for line in passed if line is not found]
        for line in passed:
            if found is not None:  # no more credit for a tenant held up than one batch
                line.tag = max(line.tag, found.tag - self._max_consecutive * max(line.step, found.step))
            self._order += 1
            heappush(heap, (line.tag, self._order, line))
        return found

    def _may_start(self, line: _Line[C], *, scarce: bool, others: bool) -> bool:
        if self._is_batch_full(line):
            return False
        if not self._accounts.is_over(line.account, self._weights):
            return True
        return not scarce and (not others or self._now - line.since >= FULLY_AGED)

    def _is_batch_full(self, line: _Line[C]) -> bool:
        """Whether the line, out of the heap, has to let the next one pass.

        One that was served ahead by more than a batch is not the next: it pays back what it cost.
        """
        if line is not self._last or self._in_a_row < self._max_consecutive or not self._heap:
            return False
        return self._heap[0][0] <= line.tag + self._max_consecutive * line.step
