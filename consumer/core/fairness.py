"""Choose whose job is next, so that no tenant waits behind another's flood.

Data flow: windows push what they took -> FairQueue -> the scheduler pops when a slot is free.
Round robin over tenants, first come first served within one.

Source: REQUIREMENTS S1-8.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, NamedTuple, TypeVar

#: Jobs of one tenant in a row while another waits. Source: REQUIREMENTS S1-8.
MAX_CONSECUTIVE: Final = 3
#: Priority of a tenant that was just served, and of one that waits longest. Source: REQUIREMENTS S1-8.
LOWEST_PRIORITY: Final = 5
HIGHEST_PRIORITY: Final = 1

T = TypeVar("T")


def priority_after(rounds: int) -> int:
    """Return a tenant's priority, 5 (low) to 1 (high), after *rounds* rounds without service.

    Raises:
        ValueError: *rounds* is negative.

    Source: REQUIREMENTS S1-8; tests/data/priority.json.
    """
    if rounds < 0:
        raise ValueError(f"rounds cannot be negative, got {rounds}")
    return max(HIGHEST_PRIORITY, LOWEST_PRIORITY - rounds)


class Standing(NamedTuple):
    """Where a tenant with waiting jobs stands."""

    waiting: int  #: its jobs
    rounds: int  #: turns of other tenants since its own last one, or since it began to wait
    consecutive: int  #: jobs in a row of its present turn; 0 while another has the turn

    def beside(self, other: Standing) -> Standing:
        """Return what holds for both together: of two queues, or of two tenants that share a label."""
        return Standing(
            self.waiting + other.waiting,
            max(self.rounds, other.rounds),
            max(self.consecutive, other.consecutive),
        )


class FairQueue(Generic[T]):
    """A queue of jobs that takes turns between tenants; push and pop take constant time."""

    __slots__ = ("_jobs", "_length", "_max_consecutive", "_round", "_served", "_since", "_turns")

    def __init__(self, max_consecutive: int = MAX_CONSECUTIVE) -> None:
        """Start empty.

        Args:
            max_consecutive: Jobs of one tenant in a row while another waits, at least 1.
        """
        if max_consecutive < 1:
            raise ValueError(f"a turn has at least one job, got {max_consecutive}")
        self._max_consecutive = max_consecutive
        self._jobs: dict[str, deque[T]] = {}  # no tenant without jobs: nothing grows with tenants long gone
        self._turns: deque[str] = deque()  # each tenant of _jobs once; its head has the turn
        self._since: deque[int] = deque()  # beside _turns: the turns there had been when each began to wait
        self._round = 0  # turns that ended
        self._served = 0  # jobs of the head in this turn
        self._length = 0

    def push(self, tenant: str, job: T) -> None:
        """Add a job behind the other jobs of its tenant."""
        jobs = self._jobs.get(tenant)
        if jobs is None:
            self._jobs[tenant] = deque((job,))
            self._turns.append(tenant)
            self._since.append(self._round)
        else:
            jobs.append(job)
        self._length += 1

    def pop(self) -> T:
        """Take the next job.

        Raises:
            IndexError: there is none.
        """
        turns = self._turns
        tenant = turns[0]
        jobs = self._jobs[tenant]
        job = jobs.popleft()
        self._length -= 1
        if not jobs:
            del self._jobs[tenant]
            turns.popleft()
            self._since.popleft()
            self._round += 1
            self._served = 0
        else:
            self._served += 1
            if self._served >= self._max_consecutive:
                turns.rotate(-1)
                self._since.popleft()
                self._round += 1
                self._since.append(self._round)
                self._served = 0
        return job

    def drain(self) -> list[T]:
        """Take all that is left, in the order in which it would have been served."""
        return [self.pop() for _ in range(self._length)]

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return self._length

    def waiting(self, tenant: str) -> int:
        """Return how many jobs of one tenant wait."""
        return len(self._jobs.get(tenant, ()))

    def standings(self) -> dict[str, Standing]:
        """Return where every tenant with waiting jobs stands; takes time with their number."""
        served = self._served
        found: dict[str, Standing] = {}
        for tenant, since in zip(self._turns, self._since, strict=True):
            rounds = 0 if served else self._round - since
            found[tenant] = Standing(len(self._jobs[tenant]), rounds, served)
            served = 0  # only the first has the turn
        return found
