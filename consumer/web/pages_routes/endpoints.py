"""The table of endpoints, the page of one endpoint, and its buttons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from consumer.edges.operate.release import Released
from consumer.web.access.visitors import Looker, Operating, Visitor
from consumer.web.pages import urls
from consumer.web.pages.filters import counted, duration
from consumer.web.pages.views import endpoints as views
from consumer.web.pages.views.parts import Flash, Series, Tone
from consumer.web.pages_routes.parts.answers import page_answer, see_other, shell_of
from consumer.web.pages_routes.parts.lines import endpoint_line
from consumer.web.pages_routes.parts.lists import Cursor, not_empty, page_request, pager
from consumer.web.pages_routes.parts.thresholds import LABELS, refused_threshold, sent_thresholds
from consumer.web.parameters import RowNumber
from consumer.web.services import endpoints as service
from consumer.web.services import steering, trials
from consumer.web.services.subscriptions import Target
from consumer.web.shared.cursors import page_of
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)

ONE = f"{urls.ENDPOINTS}/{{subscription_id}}"
ATTEMPTS = 20  #: of one page


async def _chosen(q: str = "", tenant: str = "", state: str = "") -> views.EndpointFilter:
    return views.EndpointFilter(q=q.strip(), tenant=tenant.strip(), state=state.strip())


async def target_of(visitor: Visitor, subscription_id: str, if_match: str | None = None) -> Target:
    """Return the subscription with this id.

    Raises:
        Problem: 404: there is none, or the visitor must not see it.
        StoreUnavailable: the store cannot be read.
    """
    tenant = await service.tenant_of(visitor.context, subscription_id)
    if tenant is None or not visitor.caller.sees(tenant):
        raise Problem(404, "there is no such endpoint", remedy="it may have been removed; see the list")
    return Target(tenant, subscription_id, if_match)


@router.get(urls.ENDPOINTS)
async def endpoints_page(
    visitor: Looker, chosen: Annotated[views.EndpointFilter, Depends(_chosen)], cursor: Cursor = ""
) -> Response:
    """Show the endpoints, the most serious trouble first."""
    wanted = service.EndpointFilter(q=chosen.q, tenant=chosen.tenant, state=chosen.state)
    found = await service.listed(visitor.context, wanted)
    query = not_empty(asdict(chosen))
    request = page_request(urls.ENDPOINTS, query, cursor)
    shown, following = page_of(found, lambda each: each.trouble_key, request)
    lines = await service.completed(visitor.context, shown)
    return page_answer(
        views.EndpointsPage(
            shell=shell_of(visitor),
            lines=[endpoint_line(each) for each in lines],
            total=len(found),
            chosen=chosen,
            pager=pager(urls.ENDPOINTS, query, cursor, following),
        )
    )


@router.get(ONE)
async def endpoint_page(subscription_id: str, visitor: Looker, before: RowNumber = None) -> Response:
    """Show one endpoint: its state, its last attempts and its thresholds."""
    target = await target_of(visitor, subscription_id)
    return page_answer(await _page(visitor, target, before))


@router.post(f"{ONE}/reset")
async def reset(subscription_id: str, visitor: Operating) -> Response:
    """Close the breaker, and send everything that waits."""
    freed = await steering.reset(visitor.caller, await target_of(visitor, subscription_id))
    if freed.heard:
        visitor.note(f"The breaker is closed. {_sent(freed.released)}")
    else:
        visitor.note("No worker is running; the breaker is closed when one starts.", Tone.WARN)
    return see_other(urls.endpoint(subscription_id))


@router.post(f"{ONE}/pause")
async def pause(subscription_id: str, visitor: Operating) -> Response:
    """Send nothing until the endpoint is resumed."""
    is_new = await steering.pause(visitor.caller, await target_of(visitor, subscription_id))
    visitor.note("Paused: deliveries wait and lose no attempt." if is_new else "It was paused before.")
    return see_other(urls.endpoint(subscription_id))


@router.post(f"{ONE}/resume")
async def resume(subscription_id: str, visitor: Operating) -> Response:
    """Send again."""
    target = await target_of(visitor, subscription_id)
    try:
        freed = await steering.resume(visitor.caller, target)
    except Problem as problem:
        if problem.status != 409:
            raise
        visitor.note(f"It is still paused: {problem}; {problem.faults[0].remedy}.", Tone.WARN)
    else:
        visitor.note(f"Resumed. {_sent(freed.released)}")
    return see_other(urls.endpoint(subscription_id))


@router.post(f"{ONE}/kick")
async def kick(subscription_id: str, visitor: Operating) -> Response:
    """Send the waiting deliveries now."""
    released = await steering.kick(visitor.caller, await target_of(visitor, subscription_id))
    visitor.note(_sent(released), Tone.GOOD if not released.unread else Tone.WARN)
    return see_other(urls.endpoint(subscription_id))


@router.post(f"{ONE}/test")
async def send_test(subscription_id: str, visitor: Operating) -> Response:
    """Send a test event to this endpoint only."""
    visitor.note(*await trial_words(visitor, await target_of(visitor, subscription_id)))
    return see_other(urls.endpoint(subscription_id))


@router.post(f"{ONE}/thresholds")
async def save_thresholds(subscription_id: str, visitor: Operating) -> Response:
    """Change thresholds and cooldown; a field that is refused comes back as it was sent."""
    version = visitor.form.get("version") or None
    target = await target_of(visitor, subscription_id, version)
    try:
        await service.set_thresholds(visitor.caller, target, sent_thresholds(visitor.form))
    except Problem as problem:
        if problem.status not in (409, 412, 422):
            raise
        return page_answer(await _refused(visitor, target, problem), problem.status)
    visitor.note("Saved. The new thresholds are in force within a second.")
    return see_other(urls.endpoint(subscription_id))


async def trial_words(visitor: Visitor, target: Target) -> tuple[str, Tone]:
    """Send a test event, and return its result in one sentence.

    Raises:
        Problem: the endpoint cannot be tried.
    """
    result = await trials.send(visitor.caller, target)
    took = duration(result.duration_s)
    if result.ok:
        return f"The test event was accepted with {result.code} in {took}.", Tone.GOOD
    why = "; ".join(filter(None, (result.detail, result.advice)))
    return f"The test event failed with {result.code} after {took}{': ' + why if why else ''}.", Tone.BAD


def _sent(released: Released) -> str:
    if not released.count:
        return "No delivery waits."
    return f"{counted(released.count, 'waiting delivery is', 'waiting deliveries are')} sent now."


async def _page(visitor: Visitor, target: Target, before: int | None = None) -> views.EndpointPage:
    details = await service.details(visitor.context, target)
    steps = await service.attempts(visitor.context, target.which, before, ATTEMPTS + 1)
    older = {"before": steps[ATTEMPTS - 1].seq} if len(steps) > ATTEMPTS else {}
    return views.EndpointPage(
        shell=shell_of(visitor),
        line=endpoint_line(details.values),
        events=details.values.events,
        latency=Series(values=details.latency, low=0.0),
        attempts_hour=details.values.attempts or 0,
        failures_in_row=details.values.failures_in_row,
        errors=[
            views.ErrorKind(code=each.code, count=each.count, last_at=each.last_at) for each in details.errors
        ],
        attempts=[each.row for each in steps[:ATTEMPTS]],
        thresholds=[
            views.Threshold(
                name=each.name,
                label=LABELS[each.name].label,
                unit=LABELS[each.name].unit,
                hint=LABELS[each.name].hint,
                value=each.value,
                default=each.default,
            )
            for each in details.thresholds
        ],
        version=details.etag,
        older=urls.with_query(urls.endpoint(target.which), older) if older else "",
        history_is_off=details.history_is_off,
    )


async def _refused(visitor: Visitor, target: Target, problem: Problem) -> views.EndpointPage:
    """Return the page with the values as they were sent; after a foreign change with the new values."""
    page = await _page(visitor, target)
    faults: Mapping[str, str] = refused_threshold(problem)
    if problem.status == 412:
        text = "Somebody changed this subscription meanwhile; here are its values of now."
        return replace(page, shell=replace(page.shell, flash=Flash(text=text, tone=Tone.WARN)))
    known = {name: text for name, text in faults.items() if name in LABELS}
    others = "; ".join(text for name, text in faults.items() if name not in LABELS)
    shell = replace(page.shell, flash=Flash(text=others, tone=Tone.BAD)) if others else page.shell
    sent = {each.name: visitor.form.get(each.name, "") for each in page.thresholds}
    thresholds = [
        replace(each, sent=sent[each.name], error=known.get(each.name, "")) for each in page.thresholds
    ]
    return replace(page, shell=shell, thresholds=thresholds)
