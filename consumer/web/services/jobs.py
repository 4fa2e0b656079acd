"""List replay jobs, read one, and pause, resume or cancel it."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.core.message.jobs import JobRow, JobState, Steer
from consumer.web.access.guard import Caller
from consumer.web.shared.cursors import PageRequest
from consumer.web.shared.moments import place_in, place_text
from consumer.web.shared.problems import Problem

PENDING = (JobState.RUNNING, JobState.PAUSED)


async def listed(
    caller: Caller, page: PageRequest, *, pending: bool = False
) -> tuple[Sequence[JobRow], str | None]:
    """Return a page of jobs, newest first, and the cursor of the next page.

    Args:
        caller: Who asks; one with a tenant sees the jobs for entries of this tenant alone.
        page: The wanted page.
        pending: Only jobs that are running or paused.

    Raises:
        Problem: 422: the cursor is not valid.
        StoreUnavailable: the store cannot be read.
    """
    after = place_in(page.after)
    rows = [
        row
        for row in await caller.context.store.records.jobs.all()
        if caller.sees(row.job.chosen.tenant) and (not pending or row.job.state in PENDING)
    ]
    rows.sort(key=_place, reverse=True)
    rest = rows if after is None else [row for row in rows if _place(row) < after]
    found = rest[: page.size]
    more = len(rest) > page.size
    return found, page.cursor(place_text(*_place(found[-1]))) if more else None


async def read(caller: Caller, job_id: str) -> JobRow:
    """Return one job.

    Raises:
        Problem: 404: there is no such job.
        StoreUnavailable: the store cannot be read.
    """
    row = await caller.context.store.records.jobs.get(job_id)
    if row is None or not caller.sees(row.job.chosen.tenant):
        raise Problem(404, "there is no such job", field="job", remedy="list the jobs")
    return row


async def steer(caller: Caller, job_id: str, step: Steer) -> JobRow:
    """Pause, resume or cancel a job, and return it.

    Raises:
        Problem: 404: there is no such job; 409: its state does not allow it.
        StoreUnavailable: the store cannot be written.
    """
    await read(caller, job_id)
    row, is_changed = await caller.context.store.records.jobs.steer(job_id, step, who=caller.who)
    if row is None:  # deleted meanwhile
        raise Problem(404, "there is no such job", field="job", remedy="list the jobs")
    if not is_changed:
        raise Problem(409, f"{row.job.id} is {row.job.state.value}, so {step.value} does nothing")
    return row


def _place(row: JobRow) -> tuple[float, str]:
    return row.job.created, row.job.id
