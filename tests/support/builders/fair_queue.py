"""A fair queue that a test fills and serves, and the jobs in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.queue import FairQueue

#: A tenant to push for, or None to pop.
steps = st.lists(st.one_of(st.sampled_from("aaabcd"), st.none()), max_size=200)


WEIGHTS = {"a": 1.0, "b": 2.0, "c": 4.0}


@dataclass(slots=True, eq=False)
class Work:
    """A job of a tenant; *deliveries* is its final cost."""

    tenant: str
    number: int = 0
    deliveries: int = 1
    cost: int = 1

    def charge(self, deliveries: int) -> None:
        """Set the cost."""
        self.cost = deliveries


class ServedQueue:
    """A fair queue between a test that pushes and one that pops."""

    def __init__(self, caps: Caps | None = None, weights: Mapping[str, float] | None = None) -> None:
        known = {} if weights is None else weights
        self.accounts = Accounts(Caps() if caps is None else caps, lambda tenant: known.get(tenant, 1.0))
        self.queue: FairQueue[Work] = FairQueue(self.accounts)

    def push(self, tenants: str, deliveries: int = 1) -> None:
        """Add a job for each letter."""
        for number, tenant in enumerate(tenants):
            self.queue.push(Work(tenant, number, deliveries))

    def pop(self, *, scarce: bool = False) -> Work | None:
        """Take the next job, and charge its final cost as the fan-out does."""
        job = self.queue.pop(scarce=scarce)
        if job is not None and job.cost != job.deliveries:
            self.queue.recost(job, job.deliveries)
        return job

    def serve(self, count: int) -> str:
        """Serve *count* jobs to their end; return their tenants as letters."""
        served = ""
        for _ in range(count):
            job = self.pop()
            assert job is not None
            self.accounts.ended(job)
            served += job.tenant
        return served


def serve_names(line: ServedQueue, count: int) -> list[str]:
    """Serve *count* jobs to their end; return their tenants."""
    jobs = [line.pop() for _ in range(count)]
    for job in jobs:
        assert job is not None
        line.accounts.ended(job)
    return [job.tenant for job in jobs if job is not None]
