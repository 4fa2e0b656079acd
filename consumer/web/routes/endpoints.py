"""``/v1/endpoints``: state, figures and last attempts of endpoints; thresholds, reset, open, kick."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Response

from consumer.core.event.decode import TENANT_PATTERN
from consumer.core.history.records import StoredStep, chosen_wait_s
from consumer.core.message.parked import rfc3339
from consumer.web.access.guard import Caller, Operator, Reader
from consumer.web.models.endpoints import (
    Endpoint,
    EndpointAttempt,
    EndpointLine,
    ErrorCount,
    Hour,
    LastError,
    Opened,
    Released,
    Threshold,
    Thresholds,
)
from consumer.web.parameters import IfMatch, Paging
from consumer.web.routes.steering import released_of
from consumer.web.services import endpoints, overview, steering
from consumer.web.services.endpoints import EndpointFilter, EndpointValues
from consumer.web.services.subscriptions import Target
from consumer.web.shared.cursors import Page, page_of
from consumer.web.shared.moments import number_in
from consumer.web.shared.problems import Problem

router = APIRouter(prefix="/v1/endpoints", tags=["endpoints"])

SubscriptionId = Annotated[str, Path(max_length=128, description="Id of the subscription of the endpoint.")]
OfTenant = Annotated[
    str | None, Query(pattern=f"^{TENANT_PATTERN.pattern}$", description="Only those of this tenant.")
]
State: TypeAlias = Literal[
    "failing", "open", "forced", "probing", "degraded", "resting", "paused", "disabled", "well"
]


async def _read_target(subscription: SubscriptionId, caller: Reader) -> Target:
    return await _target(subscription, caller)


async def _change_target(subscription: SubscriptionId, caller: Operator, if_match: IfMatch = None) -> Target:
    return await _target(subscription, caller, if_match)


async def _target(subscription: str, caller: Caller, if_match: str | None = None) -> Target:
    tenant = await endpoints.tenant_of(caller.context, subscription)
    if tenant is None or not caller.sees(tenant):
        raise Problem(404, "there is no such endpoint", field="subscription", remedy="list them")
    return Target(tenant, subscription, if_match)


ReadTarget = Annotated[Target, Depends(_read_target)]
ChangeTarget = Annotated[Target, Depends(_change_target)]


@router.get("")
async def list_endpoints(
    caller: Reader,
    page: Paging,
    tenant: OfTenant = None,
    state: Annotated[State | None, Query(description="failing: open, probing or forced.")] = None,
    q: Annotated[str, Query(max_length=200, description="A part of the name or of the URL.")] = "",
) -> Page[EndpointLine]:
    """List endpoints, the most serious trouble first."""
    if tenant is not None and not caller.sees(tenant):
        raise Problem(404, "there is no such tenant", field="tenant")
    chosen = EndpointFilter(q=q, tenant=tenant or caller.tenant or "", state=state or "")
    found = await endpoints.listed(caller.context, chosen)
    lines, after = page_of(found, lambda each: each.trouble_key, page)
    lines = await endpoints.completed(caller.context, lines)
    return Page(items=[EndpointLine.model_validate(_line(each)) for each in lines], next=after)


@router.get("/hour")
async def show_hour(caller: Reader, tenant: OfTenant = None) -> Hour:
    """Sum up the last hour of everything, or of one tenant."""
    if tenant is not None and not caller.sees(tenant):
        raise Problem(404, "there is no such tenant", field="tenant")
    hour = await overview.hour(caller.context, tenant or caller.tenant)
    values = asdict(hour) | {
        "latency_p95_s": hour.latency,
        "deliveries_per_s": hour.deliveries,
        "parked_top_reason": hour.parked_top_reason or None,
    }
    return Hour.model_validate(values)


@router.get("/{subscription}")
async def show_endpoint(target: ReadTarget, caller: Reader, response: Response) -> Endpoint:
    """Show one endpoint; the ETag is that of its subscription."""
    found = await endpoints.details(caller.context, target)
    response.headers["ETag"] = found.etag
    return Endpoint(
        **_line(found.values),
        success=list(found.values.success),
        latency_p95_s=list(found.latency),
        errors=[
            ErrorCount(code=each.code, count=each.count, last_at=rfc3339(each.last_at))
            for each in found.errors
        ],
        thresholds=[
            Threshold(name=each.name, unit=each.unit, value=each.value, default=each.default)
            for each in found.thresholds
        ],
        history_is_off=found.history_is_off,
    )


@router.get("/{subscription}/attempts")
async def list_endpoint_attempts(target: ReadTarget, caller: Reader, page: Paging) -> Page[EndpointAttempt]:
    """List the attempts to an endpoint, the newest first."""
    found = await endpoints.attempts(caller.context, target.which, number_in(page.after), page.size + 1)
    steps, more = found[: page.size], len(found) > page.size
    after = page.cursor(str(steps[-1].seq)) if more else None
    return Page(items=[_attempt(step) for step in steps], next=after)


@router.patch("/{subscription}/thresholds")
async def change_thresholds(
    target: ChangeTarget, changes: Thresholds, caller: Operator, response: Response
) -> Endpoint:
    """Change thresholds and cooldown of the breaker; they are in force within a second."""
    await endpoints.set_thresholds(caller, target, changes.model_dump(exclude_unset=True))
    return await show_endpoint(target, caller, response)


@router.post("/{subscription}/reset")
async def reset_endpoint(target: ChangeTarget, caller: Operator) -> Released:
    """Close the breaker in every worker, end a rest, and send the waiting deliveries at once."""
    return released_of(await steering.reset(caller, target))


@router.post("/{subscription}/open")
async def open_endpoint(target: ChangeTarget, caller: Operator) -> Opened:
    """Open the breaker in every worker until a reset: nothing is sent, not even a probe."""
    return Opened(heard=await steering.force_open(caller, target))


@router.post("/{subscription}/kick")
async def kick_endpoint(target: ChangeTarget, caller: Operator) -> Released:
    """Send the waiting deliveries now, whatever time they wait for."""
    released = await steering.kick(caller, target)
    return Released(released=released.count, heard=True, unread=list(released.unread))


def _line(values: EndpointValues) -> dict[str, Any]:
    state, error = values.condition, values.last_error
    return {
        "subscription_id": values.subscription_id,
        "tenant": values.tenant,
        "name": values.name,
        "url": values.url,
        "events": list(values.events),
        "state": state.state,
        "since": None if state.since is None else rfc3339(state.since),
        "until": None if state.until is None else rfc3339(state.until),
        "reason": state.reason or None,
        "success_ratio": values.success_ratio,
        "p95_s": values.p95_s,
        "attempts": values.attempts,
        "waiting": values.waiting,
        "parked": values.parked,
        "failures_in_row": values.failures_in_row,
        "last_error": None
        if error is None
        else LastError(
            at=rfc3339(error.at),
            code=error.code,
            detail=error.detail,
            answer=error.answer.decode("utf-8", "replace"),
            answer_type=error.answer_type,
        ),
    }


def _attempt(step: StoredStep) -> EndpointAttempt:
    row = step.row
    return EndpointAttempt(
        at=rfc3339(row.at),
        event_id=row.event_id,
        type=row.type,
        number=row.number,
        kind=row.kind,
        status=row.status,
        duration_s=None if row.latency_ms is None else row.latency_ms / 1000,
        verdict=row.reason,
        wait_s=chosen_wait_s(row),
        detail=row.detail,
        answer=(row.answer or b"").decode("utf-8", "replace"),
        answer_type=row.answer_type,
    )
