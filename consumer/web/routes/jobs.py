"""``/v1/jobs``: replay jobs with their progress."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from consumer.core.message.jobs import Steer, job_as_dict
from consumer.web.access.guard import Operator, Reader
from consumer.web.models.parked import Job
from consumer.web.parameters import Paging
from consumer.web.services import jobs as service
from consumer.web.shared.cursors import Page

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

JobId = Annotated[str, Path(max_length=64, description="job_ and 12 hex digits.")]


@router.get("")
async def list_jobs(
    caller: Reader,
    page: Paging,
    pending: Annotated[bool, Query(description="Only jobs that are running or paused.")] = False,
) -> Page[Job]:
    """List the replay jobs, newest first."""
    rows, after = await service.listed(caller, page, pending=pending)
    return Page(items=[Job.model_validate(job_as_dict(row)) for row in rows], next=after)


@router.get("/{job}")
async def show_job(job: JobId, caller: Reader) -> Job:
    """Show one job with its progress."""
    return Job.model_validate(job_as_dict(await service.read(caller, job)))


@router.post("/{job}/pause")
async def pause_job(job: JobId, caller: Operator) -> Job:
    """Let a running job rest; its other entries stay parked until it is resumed."""
    return Job.model_validate(job_as_dict(await service.steer(caller, job, Steer.PAUSE)))


@router.post("/{job}/resume")
async def resume_job(job: JobId, caller: Operator) -> Job:
    """Continue a paused or cancelled job where it stopped."""
    return Job.model_validate(job_as_dict(await service.steer(caller, job, Steer.RESUME)))


@router.post("/{job}/cancel")
async def cancel_job(job: JobId, caller: Operator) -> Job:
    """End a job; entries that it has not sent stay parked."""
    return Job.model_validate(job_as_dict(await service.steer(caller, job, Steer.CANCEL)))
