"""``/v1/events``, ``/v1/deliveries`` and ``/v1/attempts``: what happened, from the history."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from consumer.core.history.status import DeliveryStatus
from consumer.core.history.wording import as_dict
from consumer.core.operate.trace_as_dict import delivery_as_dict, event_as_dict
from consumer.edges.operate.inquiry import Ask as Wanted
from consumer.web.access.guard import Reader
from consumer.web.models.events import Delivery, DeliveryRow, StepOut, Trace, Traces
from consumer.web.parameters import Paging
from consumer.web.routes.filters import Since, Subscription, Tenant, Type, Until
from consumer.web.services import events as service
from consumer.web.services.events import DeliveryAsk
from consumer.web.shared.cursors import Page
from consumer.web.shared.moments import moment, subscription_id

router = APIRouter(prefix="/v1", tags=["events"])

Failed = Annotated[bool, Query(description="Only failed attempts and parked deliveries.")]


async def _ask(
    tenant: Tenant = None,
    subscription: Subscription = None,
    type: Type = None,
    failed: Failed = False,
) -> DeliveryAsk:
    return DeliveryAsk(tenant=tenant or "", subscription=subscription or "", type=type or "", failed=failed)


async def _span(
    caller: Reader, since: Since = None, until: Until = None
) -> tuple[float | None, float | None]:
    now = caller.context.clock.now()
    return moment(since, "since", now), moment(until, "until", now)


Ask = Annotated[DeliveryAsk, Depends(_ask)]
Span = Annotated[tuple[float | None, float | None], Depends(_span)]


@router.get("/events/{event_id:path}")
async def trace_event(
    event_id: Annotated[str, Path(min_length=1, max_length=512, description="Id of the event.")],
    caller: Reader,
    tenant: Tenant = None,
    subscription: Annotated[
        str | None, Query(max_length=512, description="A subscription that must be known, for the error.")
    ] = None,
) -> Traces:
    """Show what happened to an event: each attempt, its answer, and why a subscription did not get it."""
    found = await service.traces(caller, event_id, tenant or "", subscription or "")
    return Traces(items=[Trace.model_validate(event_as_dict(each)) for each in found])


@router.get("/traces")
async def trace_newest(
    caller: Reader,
    ask: Ask,
    since: Since = None,
    delivery_id: Annotated[str | None, Query(max_length=64, description="Only this delivery.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Most deliveries.")] = 20,
) -> Traces:
    """Trace the newest deliveries of a filter, each with its event, in order of time."""
    chosen = Wanted(
        delivery_id=delivery_id or "",
        subscription_id=subscription_id(ask.subscription) or "",
        tenant=ask.tenant,
        failed=ask.failed,
        since=moment(since, "since", caller.context.clock.now()) or 0.0,
        limit=limit,
    )
    found = await service.newest(caller, chosen, ask.subscription)
    return Traces(items=[Trace.model_validate(event_as_dict(each)) for each in found])


@router.get("/deliveries")
async def list_deliveries(
    caller: Reader,
    page: Paging,
    ask: Ask,
    span: Span,
    status: Annotated[DeliveryStatus | None, Query(description="Only deliveries with this status.")] = None,
) -> Page[DeliveryRow]:
    """List deliveries, the one with the newest step first.

    A page may have fewer items than `limit`, even none, and still have a `next`.
    """
    wanted = _with(ask, span, status=status)
    found = await service.deliveries(caller, wanted, page)
    rows = [DeliveryRow.model_validate(delivery_as_dict(event, one)) for event, one in found.items]
    return Page(items=rows, next=found.next)


@router.get("/deliveries/{delivery_id}")
async def show_delivery(
    delivery_id: Annotated[str, Path(max_length=64, description="dlv_ and 16 hex digits.")], caller: Reader
) -> Delivery:
    """Show one delivery with its steps. One that succeeded at its first attempt is found by its event."""
    event, one = await service.delivery(caller, delivery_id)
    steps = [as_dict(row) for row in one.rows]
    return Delivery.model_validate(delivery_as_dict(event, one) | {"steps": steps})


@router.get("/attempts")
async def list_attempts(
    caller: Reader,
    page: Paging,
    ask: Ask,
    span: Span,
    code: Annotated[
        str | None, Query(max_length=64, description="Only this result: `503`, or a kind such as `dns`.")
    ] = None,
) -> Page[StepOut]:
    """List attempts, newest first.

    A page may have fewer items than `limit`, even none, and still have a `next`.
    """
    found = await service.attempts(caller, _with(ask, span, code=code or ""), page)
    return Page(items=[StepOut.model_validate(as_dict(row)) for row in found.items], next=found.next)


def _with(
    ask: DeliveryAsk,
    span: tuple[float | None, float | None],
    *,
    status: DeliveryStatus | None = None,
    code: str = "",
) -> DeliveryAsk:
    return DeliveryAsk(
        tenant=ask.tenant,
        subscription=ask.subscription,
        type=ask.type,
        failed=ask.failed,
        since=span[0],
        until=span[1],
        status=status,
        code=code,
    )
