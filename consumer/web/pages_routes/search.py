"""Search for an id, or for a part of a name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from consumer.web.access.visitors import AnyVisitor, Visitor
from consumer.web.pages import urls
from consumer.web.pages.filters import counted
from consumer.web.pages.views.events import Found, SearchPage
from consumer.web.pages_routes.parts.answers import page_answer, see_other, shell_of
from consumer.web.services import endpoints, events, jobs, parked
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)

RESULTS: Final = 20  #: of each kind
QUERY_MAX: Final = 256  #: characters


@router.get(urls.SEARCH)
async def search_page(visitor: AnyVisitor, q: str = "") -> Response:
    """Show what has this id or name; a single result is opened."""
    wanted = q.strip()[:QUERY_MAX]
    found = await _search(visitor, wanted) if wanted else ()
    if len(found) == 1:
        return see_other(found[0].href)
    return page_answer(SearchPage(shell=shell_of(visitor, search=wanted), found=found))


async def _search(visitor: Visitor, text: str) -> Sequence[Found]:
    if text.startswith("prk_") and visitor.caller.tenant is None:
        return await _known(_entry, visitor, text)
    if text.startswith("job_") and visitor.caller.tenant is None:
        return await _known(_job, visitor, text)
    if text.startswith("dlv_"):
        return await _known(_delivery, visitor, text)
    return [
        *await _tenants(visitor, text),
        *await _endpoints(visitor, text),
        *await _known(_events, visitor, text),
    ]


async def _known(
    look: Callable[[Visitor, str], Awaitable[Sequence[Found]]], visitor: Visitor, text: str
) -> Sequence[Found]:
    """Return what *look* finds; nothing where it answers 404, or 422 as the text is not an id."""
    try:
        return await look(visitor, text)
    except Problem as problem:
        if problem.status not in (404, 422):
            raise
        return ()


async def _entry(visitor: Visitor, text: str) -> Sequence[Found]:
    row = await parked.row(visitor.caller, text)
    return [Found(kind="parked entry", label=row.id, detail=row.detail, href=urls.entry(row.id))]


async def _job(visitor: Visitor, text: str) -> Sequence[Found]:
    row = await jobs.read(visitor.caller, text)
    return [Found(kind="job", label=row.job.id, detail=row.job.state.value, href=urls.job(row.job.id))]


async def _delivery(visitor: Visitor, text: str) -> Sequence[Found]:
    trace, delivery = await events.delivery(visitor.caller, text)
    href = _event_href(visitor, trace.key.event_id, trace.key.tenant)
    return [Found(kind="event", label=trace.key.event_id, detail=delivery.state.status.value, href=href)]


async def _events(visitor: Visitor, text: str) -> Sequence[Found]:
    found = await events.traces(visitor.caller, text)
    return [
        Found(
            kind="event",
            label=each.key.event_id,
            detail=f"{each.key.type} of {each.key.tenant or 'no tenant'}",
            href=_event_href(visitor, each.key.event_id, each.key.tenant),
        )
        for each in found[:RESULTS]
    ]


async def _tenants(visitor: Visitor, text: str) -> Sequence[Found]:
    if visitor.caller.tenant is not None:
        return ()
    found = await visitor.context.lookup.tenants()
    return [
        Found(
            kind="tenant",
            label=tenant,
            detail=counted(count, "subscription"),
            href=urls.with_query(urls.ENDPOINTS, {"tenant": tenant}),
        )
        for tenant, count in found.items()
        if text.lower() in tenant.lower()
    ][:RESULTS]


async def _endpoints(visitor: Visitor, text: str) -> Sequence[Found]:
    own = visitor.caller.tenant
    chosen = endpoints.EndpointFilter(q=text, tenant=own or "", state="")
    href = urls.endpoint if own is None else urls.own_endpoint
    return [
        Found(
            kind="endpoint",
            label=f"{each.tenant}/{each.name}" if own is None else each.name,
            detail=each.url,
            href=href(each.subscription_id),
        )
        for each in (await endpoints.listed(visitor.context, chosen))[:RESULTS]
    ]


def _event_href(visitor: Visitor, event_id: str, tenant: str) -> str:
    return urls.event(event_id, tenant) if visitor.caller.tenant is None else urls.own_event(event_id)
