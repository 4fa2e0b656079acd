"""Choose which share is next: fresh, due, replay, spill or suspect. Each gets at least its part.

Data flow: windows -> Scheduler.push(share) -> a FairQueue per share -> Scheduler.pop when a slot is free.
Shares take turns as the tenants within a share do: each share has a tag of virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

from consumer.core.fairness.accounts import Accounts
from consumer.core.fairness.queue import MAX_CONSECUTIVE, C, FairQueue, Standing


class Scheduler(Generic[C]):
    """One queue for each share; a share with work gets at least its part of the deliveries."""

    def __init__(self, parts: Sequence[float], accounts: Accounts, batch: int = MAX_CONSECUTIVE) -> None:
        """Start empty.

        Args:
            parts: The part of each share, above 0. Shares with work divide the rest in the same proportion.
            accounts: The accounts of the tenants, over all shares.
            batch: Jobs of one tenant in a row while another tenant waits, at least 1.
        """
        self.length = 0  #: jobs that wait
        self.accounts = accounts
        self.queues: tuple[FairQueue[C], ...] = tuple(FairQueue(accounts, batch) for _ in parts)
        self._steps = [1.0 / part for part in parts]
        self._tags = [0.0 for _ in parts]
        self._now = 0.0
        self._busy: list[int] = []  # shares with work

    def push(self, share: int, job: C) -> bool:
        """Add a job to a share; return whether it is the only one of its tenant there."""
        queue, busy = self.queues[share], self._busy
        if not queue.length:
            if len(busy) == 1:  # a share that was alone owes nothing
                self._now = max(self._now, self._tags[busy[0]])
            busy.append(share)
            self._tags[share] = max(self._tags[share], self._now)
        self.length += 1
        return queue.push(job)

    def pop(self, *, scarce: bool = False) -> C | None:
        """Take the next job, or None where no tenant may start one; see :meth:`FairQueue.pop`."""
        busy = self._busy
        if len(busy) == 1:  # no other share needs its part: the tag stays
            queue = self.queues[busy[0]]
            job = queue.pop(scarce=scarce)
            if job is not None:
                self.length -= 1
                if not queue.length:
                    busy.clear()
            return job
        for share in sorted(busy, key=self._tags.__getitem__):
            job = self._pop_of(share, scarce=scarce)
            if job is not None:
                return job
        return None

    def recost(self, share: int, job: C, cost: int) -> None:
        """Charge a popped job of *share* for *cost* deliveries."""
        if len(self._busy) > 1:
            tag = self._tags[share] + (cost - job.cost) * self._steps[share]
            self._tags[share] = max(tag, self._now)
        self.queues[share].recost(job, cost)

    def take_out(self, unwanted: Callable[[C], bool]) -> list[C]:
        """Take out all jobs that are *unwanted*."""
        taken = [job for queue in self.queues for job in queue.take_out(unwanted)]
        self._busy = [share for share, queue in enumerate(self.queues) if queue.length]
        self.length -= len(taken)
        return taken

    def take_last(self, share: int, tenant: str, keep: int, most: int) -> list[C]:
        """Take newest jobs of a tenant out of a share; see :meth:`FairQueue.take_last`."""
        taken = self.queues[share].take_last(tenant, keep, most)
        self.length -= len(taken)
        return taken

    def waiting(self) -> int:
        """Return how many tenants wait; a tenant that waits in two shares counts twice."""
        return sum([self.queues[share].tenants() for share in self._busy])

    def standings(self) -> dict[str, Standing]:
        """Return the place of each tenant with waiting jobs, over all shares."""
        found: dict[str, Standing] = {}
        for queue in self.queues:
            for tenant, standing in queue.standings().items():
                found[tenant] = standing.beside(found[tenant]) if tenant in found else standing
        return found

    def _pop_of(self, share: int, *, scarce: bool) -> C | None:
        queue = self.queues[share]
        job = queue.pop(scarce=scarce)
        if job is None:
            return None
        self.length -= 1
        tag = self._tags[share]
        if tag > self._now:  # noqa: PLR1730 - max() costs more than all the rest of the line
            self._now = tag
        self._tags[share] = tag + job.cost * self._steps[share]
        if not queue.length:
            self._busy.remove(share)
        return job
