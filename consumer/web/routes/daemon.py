"""``/v1/status`` and ``/v1/fairness``: the activity of the worker at the listen address."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from consumer.web.access.guard import Reader
from consumer.web.models.daemon import DaemonStatus, Fairness, TenantShare
from consumer.web.services import daemon, tenants

router = APIRouter(prefix="/v1", tags=["status"])


@router.get("/status")
async def daemon_status(caller: Reader) -> DaemonStatus:
    """Show the health of store, broker and worker, with the numbers of `leveret status`."""
    found = await daemon.health(caller)
    return DaemonStatus.model_validate(asdict(found) | {"status": "ok" if found.is_well else "degraded"})


@router.get("/fairness")
async def fairness(
    caller: Reader,
    q: Annotated[str, Query(max_length=256, description="A part of the tenant's name.")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000, description="Most tenants.")] = 100,
) -> Fairness:
    """Show how the worker is shared among the tenants, the busiest first."""
    found = await tenants.tenants(caller, q)
    lines = asdict(found)
    lines.pop("lines")
    items = [TenantShare.model_validate(asdict(line)) for line in found.lines[:limit]]
    return Fairness(**lines, items=items, tenants=len(found.lines))
