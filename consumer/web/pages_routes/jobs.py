"""The list of replay jobs, one job with its progress, and the buttons that steer it."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from consumer.core.message.jobs import Steer
from consumer.web.access.visitors import Looker, Operating
from consumer.web.pages import urls
from consumer.web.pages.views.jobs import JobPage, JobsPage
from consumer.web.pages.views.parts import Tone
from consumer.web.pages_routes.parts.answers import page_answer, see_other, shell_of
from consumer.web.pages_routes.parts.lists import Cursor, page_request, pager
from consumer.web.pages_routes.parts.parked_lines import job_lines
from consumer.web.services import jobs as service
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)

RUNNING_S: Final = 2  #: seconds after which the page of a running job reloads itself
_DONE: Final = {
    Steer.PAUSE: "The job is paused within a second.",
    Steer.RESUME: "The job goes on.",
    Steer.CANCEL: "The job is cancelled; entries that were not resent stay parked.",
}


@router.get(urls.JOBS)
async def jobs_page(visitor: Looker, cursor: Cursor = "") -> Response:
    """Show the jobs, newest first."""
    rows, following = await service.listed(visitor.caller, page_request(urls.JOBS, {}, cursor))
    is_running = any(row.job.state == "running" for row in rows)
    return page_answer(
        JobsPage(
            shell=shell_of(visitor, refresh_s=RUNNING_S if is_running else None),
            lines=await job_lines(visitor.context, rows),
            pager=pager(urls.JOBS, {}, cursor, following),
        )
    )


@router.get(f"{urls.JOBS}/{{job_id}}")
async def job_page(job_id: str, visitor: Looker) -> Response:
    """Show one job; the page reloads itself while it runs."""
    row = await service.read(visitor.caller, job_id)
    [line] = await job_lines(visitor.context, [row])
    return page_answer(
        JobPage(shell=shell_of(visitor, refresh_s=RUNNING_S if line.state == "running" else None), line=line)
    )


@router.post(f"{urls.JOBS}/{{job_id}}/{{step}}")
async def steer_job(job_id: str, step: str, visitor: Operating) -> Response:
    """Pause, resume or cancel a job."""
    if step not in list(Steer):
        raise Problem(404, "there is nothing at this path")
    try:
        await service.steer(visitor.caller, job_id, Steer(step))
    except Problem as problem:
        if problem.status != 409:
            raise
        visitor.note(f"{problem}.", Tone.WARN)
    else:
        visitor.note(_DONE[Steer(step)])
    return see_other(urls.job(job_id))
