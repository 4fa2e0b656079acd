"""``POST /v1/tenants/{tenant}/events``: publish an event; 202 means that the broker has it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request

from consumer.core.message.parked import rfc3339
from consumer.web.access.guard import Operator
from consumer.web.models.endpoints import EventFields, PublishedEvent
from consumer.web.parameters import TenantName
from consumer.web.services import publish as service
from consumer.web.services.publish import NewEvent

router = APIRouter(prefix="/v1/tenants/{tenant}/events", tags=["events"])

IdempotencyKey = Annotated[
    str | None,
    Header(description="A repeated request with this key publishes no second event, for 24 hours."),
]


@router.post("", status_code=202)
async def publish_event(
    tenant: TenantName,
    fields: EventFields,
    request: Request,
    caller: Operator,
    idempotency_key: IdempotencyKey = None,
) -> PublishedEvent:
    """Publish one event. The answer comes after the broker's confirm; without one it is 503."""
    event = NewEvent(type=fields.type, data=service.data_of(await request.body()), id=fields.id)
    done = await service.publish(caller, tenant, event, idempotency_key)
    return PublishedEvent(
        id=done.id,
        webhook_id=done.webhook_id,
        tenant=done.tenant,
        type=done.type,
        at=rfc3339(done.at),
        size_bytes=done.size_bytes,
        repeated=done.repeated,
    )
