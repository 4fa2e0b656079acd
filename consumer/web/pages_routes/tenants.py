"""The page of tenants and fairness."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from consumer.web.access.visitors import Looker
from consumer.web.pages import urls
from consumer.web.pages.troubles import worker_trouble
from consumer.web.pages.views.parts import Series
from consumer.web.pages.views.tenants import FairnessDay, TenantLine, TenantsPage
from consumer.web.pages_routes.parts.answers import page_answer, shell_of
from consumer.web.pages_routes.parts.lists import SIZE, Cursor, not_empty, page_request, pager
from consumer.web.services import daemon
from consumer.web.services import tenants as service

router = APIRouter(include_in_schema=False)


@router.get(urls.TENANTS)
async def tenants_page(visitor: Looker, q: str = "", cursor: Cursor = "") -> Response:
    """Show the tenants, the rerouted and the busiest first, and how even the sharing is."""
    query = not_empty({"q": q.strip()})
    request = page_request(urls.TENANTS, query, cursor)
    found = await service.tenants(visitor.caller, q.strip())
    day = None if visitor.caller.tenant is not None else _day(await service.fairness_day(visitor.context))
    gone = await daemon.unreached(visitor.context)
    # the order follows the rates and changes from second to second, so the cursor is a place in it
    start = int(request.after) if request.after is not None and request.after.isdecimal() else 0
    end = start + SIZE
    following = request.cursor(str(end)) if len(found.lines) > end else None
    return page_answer(
        TenantsPage(
            shell=shell_of(visitor),
            lines=[_line(each) for each in found.lines[start:end]],
            total=len(found.lines),
            q=q.strip(),
            fairness=found.fairness,
            fairness_tenants=found.fairness_tenants,
            slots=found.slots,
            slots_used=found.slots_used,
            borrowable=found.borrowable,
            rerouted=found.rerouted,
            in_lanes=found.in_lanes,
            in_spill=found.in_spill,
            day=day,
            trouble=None if gone is None else worker_trouble(gone),
            pager=pager(urls.TENANTS, query, cursor, following),
        )
    )


def _day(day: service.FairnessDay | None) -> FairnessDay | None:
    if day is None:
        return None
    return FairnessDay(
        index=day.index,
        hours=Series(values=day.hours, low=0.0, high=1.0),
        top=day.top,
        top_share=day.top_share,
        top_hours=Series(values=day.top_hours, low=0.0, high=1.0),
    )


def _line(line: service.TenantNow) -> TenantLine:
    return TenantLine(
        tenant=line.tenant,
        endpoints=line.subscriptions,
        deliveries_per_s=line.deliveries_per_s,
        share=line.share,
        in_flight=line.in_flight,
        is_rerouted=line.is_rerouted,
        waiting=line.waiting,
        rounds_waited=line.rounds_waited,
        parked=line.parked,
    )
