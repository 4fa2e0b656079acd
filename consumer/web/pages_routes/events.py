"""The timeline of an event."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from consumer.web.access.visitors import Customer, Looker, Visitor
from consumer.web.pages.views.events import EventPage
from consumer.web.pages_routes.parts.answers import page_answer, shell_of
from consumer.web.services import events as service

router = APIRouter(include_in_schema=False)


@router.get("/events/{event_id:path}")
async def event_page(event_id: str, visitor: Looker, tenant: str = "") -> Response:
    """Show the timeline of an event of any tenant."""
    return page_answer(await _page(visitor, event_id, tenant))


@router.get("/my/events/{event_id:path}")
async def own_event_page(event_id: str, visitor: Customer) -> Response:
    """Show the timeline of an event of the visitor's tenant."""
    return page_answer(await _page(visitor, event_id, ""))


async def _page(visitor: Visitor, event_id: str, tenant: str) -> EventPage:
    found = await service.traces(visitor.caller, event_id)
    trace = next((each for each in found if each.key.tenant == tenant), found[0])
    others = {each.key.tenant for each in found} - {trace.key.tenant}
    return EventPage(shell=shell_of(visitor), trace=trace, other_tenants=sorted(filter(None, others)))
