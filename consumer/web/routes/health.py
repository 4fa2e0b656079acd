"""``GET /v1/health``: whether the API can work; it needs no token."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Response

from consumer.core.errors import StoreUnavailable
from consumer.web.context import Context
from consumer.web.models.base import Health

router = APIRouter(tags=["health"])


@router.get("/v1/health", responses={503: {"model": Health}})
async def health(context: Context, response: Response) -> Health:
    """Return whether the store can be read; 503 if it cannot."""
    try:
        await context.store.read_lineage()
    except StoreUnavailable:
        response.status_code = 503
        return Health(status="degraded", version=version("leveret"), store="away")
    return Health(status="ok", version=version("leveret"), store="ok")
