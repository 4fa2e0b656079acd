"""Measure the cost of one decision of the scheduler with 10,000 tenants that all have work."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.prove import Bench, Goal, Measured, Proof
from consumer.core.fairness.accounts import Accounts, Caps
from consumer.core.fairness.scheduler import Scheduler

TENANTS = 10_000
JOBS = 100_000
BATCH = 100  #: jobs timed together: one alone is shorter than the clock's resolution

GOALS = (Goal(name="schedule_us", text="≤ 50", unit="us", n=JOBS),)


@dataclass(slots=True, eq=False)
class Work:
    """A job for the scheduler alone."""

    tenant: str
    cost: int = 1

    def charge(self, deliveries: int) -> None:
        """Set the cost."""
        self.cost = deliveries


async def prove(bench: Bench) -> Sequence[Measured]:
    """Time a job's whole way: pushed, popped, ended."""
    scheduler: Scheduler[Work] = Scheduler((0.5, 0.3, 0.2), Accounts(Caps(capacity=256)))
    names = [f"tenant-{number}" for number in range(TENANTS)]
    for name in names:
        scheduler.push(0, Work(name))
        scheduler.push(1, Work(name))
    jobs, times = bench.count(JOBS, BATCH), []
    for start in range(0, jobs, BATCH):
        fresh = [Work(names[(start + n) * 7919 % TENANTS]) for n in range(BATCH)]
        began = time.perf_counter()
        for job in fresh:
            scheduler.push(0, job)
            popped = scheduler.pop()
            if popped is not None:
                scheduler.accounts.ended(popped)
        times.append((time.perf_counter() - began) / BATCH * 1e6)
    bench.note("schedule_p99_us", round(sorted(times)[int(len(times) * 0.99)], 2))
    return [Measured(name="schedule_us", value=round(statistics.median(times), 2), n=jobs)]


PROOF = Proof("schedule", GOALS, prove)
