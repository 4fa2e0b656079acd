"""The view of a customer: the endpoints, attempts and secrets of the one tenant of a bound token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from consumer.core.changes.merge import StoredEntry
from consumer.core.errors import ConfigError
from consumer.core.message.parked_filter import Filter
from consumer.core.text.durations import parse_duration
from consumer.edges.operate.parked.jobs import ReplayHow
from consumer.web.access.visitors import Customer, OperatingCustomer, Visitor
from consumer.web.pages import urls
from consumer.web.pages.filters import counted
from consumer.web.pages.views.customer import CustomerEndpointPage, CustomerPage, SecretLine
from consumer.web.pages.views.parts import Flash, Tone
from consumer.web.pages_routes.endpoints import ATTEMPTS, target_of, trial_words
from consumer.web.pages_routes.parts.answers import page_answer, see_other, shell_of
from consumer.web.pages_routes.parts.lines import endpoint_line
from consumer.web.pages_routes.parts.lists import Cursor, page_request, pager
from consumer.web.pages_routes.parts.parked_lines import parked_lines
from consumer.web.parameters import RowNumber
from consumer.web.services import endpoints as service
from consumer.web.services import overview, parked, steering, subscriptions
from consumer.web.services.parked import ParkedAsk
from consumer.web.services.subscriptions import Target
from consumer.web.shared.cursors import page_of
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)

ONE: Final = f"{urls.CUSTOMER}/endpoints/{{subscription_id}}"
PARKED: Final = 10  #: parked entries that are shown


@router.get(urls.CUSTOMER)
async def customer_page(visitor: Customer, cursor: Cursor = "") -> Response:
    """Show the endpoints of the visitor's tenant, the most serious trouble first."""
    tenant = visitor.caller.tenant or ""
    found = await service.listed(visitor.context, service.EndpointFilter(q="", tenant=tenant, state=""))
    day = await overview.day(visitor.context, tenant)
    request = page_request(urls.CUSTOMER, {}, cursor)
    shown, following = page_of(found, lambda each: each.trouble_key, request)
    lines = await service.completed(visitor.context, shown)
    return page_answer(
        CustomerPage(
            shell=shell_of(visitor),
            lines=[endpoint_line(each) for each in lines],
            delivered_day=day.delivered,
            success_ratio=day.success_ratio,
            parked=day.parked,
            pager=pager(urls.CUSTOMER, {}, cursor, following),
        )
    )


@router.get(ONE)
async def own_endpoint_page(subscription_id: str, visitor: Customer, before: RowNumber = None) -> Response:
    """Show one endpoint of the visitor's tenant, without secrets."""
    return page_answer(await _page(visitor, await target_of(visitor, subscription_id), before))


@router.post(f"{ONE}/test")
async def send_own_test(subscription_id: str, visitor: OperatingCustomer) -> Response:
    """Send a test event to this endpoint only."""
    visitor.note(*await trial_words(visitor, await target_of(visitor, subscription_id)))
    return see_other(urls.own_endpoint(subscription_id))


@router.post(f"{ONE}/rotate")
async def rotate_own_secret(subscription_id: str, visitor: OperatingCustomer) -> Response:
    """Make a new secret and show it, this once; the older ones sign for the time of grace."""
    target = await target_of(visitor, subscription_id)
    typed = visitor.form.get("grace", "").strip()
    try:
        grace_s = parse_duration(typed) if typed else steering.OVERLAP_S
        made = await steering.rotate_secret(visitor.caller, target, steering.Fresh(expire_in_s=grace_s))
    except (ConfigError, Problem) as error:
        if isinstance(error, Problem) and error.status not in (409, 422):
            raise
        page = await _page(visitor, target)
        flash = Flash(text=f"The secret is as it was: {error}", tone=Tone.BAD)
        return page_answer(replace(page, shell=replace(page.shell, flash=flash)), 422)
    return page_answer(replace(await _page(visitor, target), new_secret=made.secret or made.public_key or ""))


@router.post(f"{ONE}/resend")
async def resend_own_endpoint(subscription_id: str, visitor: OperatingCustomer) -> Response:
    """Resend every parked entry of this endpoint, as a job."""
    await target_of(visitor, subscription_id)
    await _resend(visitor, ParkedAsk(subscription=subscription_id))
    return see_other(urls.own_endpoint(subscription_id))


@router.post(urls.CUSTOMER_RESEND)
async def resend_all_own(visitor: OperatingCustomer) -> Response:
    """Resend every parked entry of the visitor's tenant, as a job."""
    await _resend(visitor, ParkedAsk(tenant=visitor.caller.tenant or ""))
    return see_other(urls.CUSTOMER)


async def _resend(visitor: Visitor, ask: ParkedAsk) -> None:
    """Make the job, and note its size for the next page.

    Raises:
        Problem: the job cannot be made.
    """
    chosen = await parked.chosen(visitor.caller, ask)
    row = await parked.replay(visitor.caller, chosen, ReplayHow())
    count = row.job.total
    what = (
        "Failed webhooks are" if count is None else counted(count, "failed webhook is", "failed webhooks are")
    )
    visitor.note(f"{what} being sent again. Open this page again in a moment.")


async def _page(visitor: Visitor, target: Target, before: int | None = None) -> CustomerEndpointPage:
    details = await service.details(visitor.context, target)
    steps = await service.attempts(visitor.context, target.which, before, ATTEMPTS + 1)
    is_more = len(steps) > ATTEMPTS
    seen = await subscriptions.read(visitor.context, target)
    entries = await parked.listed(
        visitor.caller,
        Filter(tenant=target.tenant, subscription=target.which),
        page_request(urls.own_endpoint(target.which), {}, "", PARKED),
    )
    own = urls.own_endpoint(target.which)
    return CustomerEndpointPage(
        shell=shell_of(visitor),
        line=endpoint_line(details.values),
        events=details.values.events,
        attempts=[each.row for each in steps[:ATTEMPTS]],
        older=urls.with_query(own, {"before": steps[ATTEMPTS - 1].seq}) if is_more else "",
        secrets=secret_lines(seen.entry),
        parked=await parked_lines(visitor.context, entries.rows),
    )


def secret_lines(entry: StoredEntry) -> Sequence[SecretLine]:
    """Return the signing secrets, newest first, by their last four characters."""
    texts = entry.secret_texts()
    replaced = entry.replaced_at or (0,) * len(texts)
    ends = entry.ends_at or (0,) * len(texts)
    began = [*replaced[1:], 0]  # a secret began when the one behind it was replaced
    return [
        SecretLine(
            hint=text[-4:],
            kind="v1a" if text.startswith("whsk_") else "v1",
            created=float(began[place]) or None,
            expires=float(ends[place]) or None,
        )
        for place, text in enumerate(texts)
    ]
