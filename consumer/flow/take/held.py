"""Hold jobs in memory for the last moments of their wait: a publish to a rung and back would cost more.

Data flow: Job.hold -> HeldJobs -> a timer -> the intake queues the job again.
"""

from __future__ import annotations

from collections.abc import Callable

from consumer.flow.take.job import Job
from consumer.ports import Clock


class HeldJobs:
    """Jobs that wait for a timer in the worker."""

    def __init__(self, clock: Clock, most: int, on_due: Callable[[Job], None]) -> None:
        """Start empty.

        Args:
            clock: Runs the timers.
            most: Jobs that are held at a time.
            on_due: Called with each job when its time has come.
        """
        self._clock = clock
        self._most = most
        self._on_due = on_due
        self._cancel: dict[Job, Callable[[], None]] = {}

    def add(self, job: Job, delay_s: float) -> bool:
        """Hold *job* for *delay_s* seconds; return False where there are too many."""
        if len(self._cancel) >= self._most:
            return False
        self._cancel[job] = self._clock.call_later(delay_s, lambda: self._release(job))
        return True

    def take_out(self, wanted: Callable[[Job], bool]) -> list[Job]:
        """Take out the jobs that are *wanted*, and stop their timers."""
        taken = [job for job in self._cancel if wanted(job)]
        for job in taken:
            self._cancel.pop(job)()
        return taken

    def __len__(self) -> int:
        """Return how many jobs are held."""
        return len(self._cancel)

    def _release(self, job: Job) -> None:
        if self._cancel.pop(job, None) is not None:
            self._on_due(job)
