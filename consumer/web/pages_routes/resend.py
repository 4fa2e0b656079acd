"""The question before a replay of parked entries, and the job that it makes."""

from __future__ import annotations

import math
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from consumer.edges.operate.parked.jobs import RATE_LEAST, RATE_MOST, ReplayHow
from consumer.web.access.visitors import Looker, Operating, Visitor
from consumer.web.pages import urls
from consumer.web.pages.views.parked import DryCount, ParkedFilter, ResendPage
from consumer.web.pages_routes.parts.answers import page_answer, see_other, shell_of
from consumer.web.pages_routes.parts.parked_filters import Chosen, filter_of, read_filter
from consumer.web.pages_routes.parts.parked_lines import names_of
from consumer.web.services import parked as service
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)

RAW: Final = "messages that never became an event"


@router.get(urls.RESEND)
async def resend_page(visitor: Looker, typed: Chosen) -> Response:
    """Show the result of a dry run; nothing is sent."""
    return page_answer(await _page(visitor, typed))


@router.post(urls.RESEND)
async def resend(visitor: Operating) -> Response:
    """Make the job, and lead to its page."""
    typed = read_filter(visitor.form)
    try:
        how = ReplayHow(rate_per_s=_rate(visitor.form.get("rate", "").strip()))
        row = await service.replay(visitor.caller, await filter_of(visitor, typed), how)
    except Problem as problem:
        if problem.status not in (409, 422):
            raise
        return page_answer(await _page(visitor, typed, str(problem)), problem.status)
    return see_other(urls.job(row.job.id))


def _rate(text: str) -> float | None:
    """Return the rate in entries per second; None: no limit.

    Raises:
        Problem: 422.
    """
    try:
        rate = float(text) if text else None
    except ValueError:
        rate = math.nan
    if rate is not None and not RATE_LEAST <= rate <= RATE_MOST:
        detail = f"the rate must be a number from {RATE_LEAST:g} to {RATE_MOST:,.0f}, or empty"
        raise Problem(422, detail, field="rate")
    return rate


async def _page(visitor: Visitor, typed: ParkedFilter, error: str = "") -> ResendPage:
    dry = await service.dry_run(visitor.caller, await filter_of(visitor, typed))
    counts: dict[str, int] = {}
    for group in dry.sends:
        subscription = group.values["subscription"] or ""
        counts[subscription] = counts.get(subscription, 0) + group.count
    names = await names_of(visitor.context, counts)
    by_size = sorted(counts.items(), key=lambda each: -each[1])
    return ResendPage(
        shell=shell_of(visitor),
        chosen=typed,
        total=dry.total,
        sends=[DryCount(label=names.get(of, of or RAW), count=count) for of, count in by_size],
        stays=[DryCount(label=reason, count=count) for reason, count in dry.stays.items()],
        error=error,
    )
