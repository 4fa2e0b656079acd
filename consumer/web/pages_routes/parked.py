"""The list of parked entries, and one entry with its payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from consumer.core.errors import BrokerUnavailable
from consumer.core.event.amqp_values import as_text
from consumer.core.message.parked import ParkedEntry, delivery_id
from consumer.core.message.parked_filter import Filter, GroupBy
from consumer.core.model import ParkReason
from consumer.web.access.visitors import Looker, Operating, Visitor
from consumer.web.pages import urls
from consumer.web.pages.views.parked import EntryPage, Group, GroupTab, ParkedFilter, ParkedPage
from consumer.web.pages.views.parts import Choice
from consumer.web.pages_routes.parts.answers import page_answer, see_other, shell_of
from consumer.web.pages_routes.parts.lists import Cursor, page_request, pager
from consumer.web.pages_routes.parts.parked_filters import Chosen, filter_of
from consumer.web.pages_routes.parts.parked_lines import names_of, parked_lines
from consumer.web.services import parked as service
from consumer.web.services import parked_queue
from consumer.web.shared.problems import Problem

router = APIRouter(include_in_schema=False)

GROUPS: Final = 20  #: groups that are shown
PAYLOAD_MAX: Final = 256 * 1024  #: bytes of a payload that are shown
_WORDS: Final = {
    ParkReason.EXHAUSTED: "every attempt failed",
    ParkReason.PERMANENT: "the endpoint refused it",
    ParkReason.EXPIRED: "too old",
    ParkReason.DISABLED: "its subscription is off",
    ParkReason.BACKLOG: "its tenant had too much waiting",
}
REASONS: Final = tuple(
    Choice(value=each.value, label=f"{each.value}: {_WORDS[each]}" if each in _WORDS else each.value)
    for each in ParkReason
)
_TABS: Final = (GroupBy.REASON, GroupBy.SUBSCRIPTION, GroupBy.TYPE)


@router.get(urls.PARKED)
async def parked_page(
    visitor: Looker, typed: Chosen, group: str = GroupBy.REASON.value, cursor: Cursor = ""
) -> Response:
    """Show parked entries, newest first, and their groups."""
    try:
        wanted = await filter_of(visitor, typed)
    except Problem as problem:
        if problem.status not in (404, 422):
            raise
        first = problem.faults[0]
        text = "; ".join(filter(None, (first.detail, first.remedy)))
        error = f"{first.field}: {text}" if first.field else text
        refused = ParkedPage(shell=shell_of(visitor), chosen=typed, filter_error=error, reasons=REASONS)
        return page_answer(refused, problem.status)
    by = GroupBy(group) if group in _TABS else GroupBy.REASON
    query = {**typed.query, "group": by.value}
    found = await service.listed(visitor.caller, wanted, page_request(urls.PARKED, query, cursor))
    return page_answer(
        ParkedPage(
            shell=shell_of(visitor),
            lines=await parked_lines(visitor.context, found.rows),
            total=found.total,
            chosen=typed,
            reasons=REASONS,
            tabs=[
                GroupTab(
                    key=tab.value,
                    label=tab.value.capitalize(),
                    href=urls.with_query(urls.PARKED, {**typed.query, "group": tab.value}),
                )
                for tab in _TABS
            ],
            tab=by.value,
            groups=await _groups(visitor, wanted, typed, by),
            pager=pager(urls.PARKED, query, cursor, found.next),
        )
    )


@router.get(f"{urls.PARKED}/{{entry_id}}")
async def entry_page(entry_id: str, visitor: Looker) -> Response:
    """Show one entry. Its payload is read from the queue, which one reader at a time may take in hand."""
    row = await service.row(visitor.caller, entry_id)
    [line] = await parked_lines(visitor.context, [row])
    note = ""
    entry: ParkedEntry | None = None
    try:
        entry = await parked_queue.show(visitor.caller, entry_id)
    except BrokerUnavailable:
        note = "The broker is away, so the payload cannot be read now."
    except Problem as problem:
        if problem.status not in (404, 409, 503):
            raise
        note = _why_no_payload(problem)
    is_gone = bool(line.subscription_id) and not line.subscription
    page = EntryPage(
        shell=shell_of(visitor),
        line=line,
        event_id=row.event_id or "",
        arrived_at=row.arrived_at,
        payload_note=note,
        can_resend=not is_gone,
        why_not="its subscription no longer exists" if is_gone else "",
    )
    return page_answer(page if entry is None else _with_entry(page, entry))


@router.post(f"{urls.PARKED}/{{entry_id}}/resend")
async def resend_entry(entry_id: str, visitor: Operating) -> Response:
    """Resend one entry, as a job."""
    row = await service.replay_one(visitor.caller, entry_id)
    visitor.note("The job is made; a worker takes it within seconds.")
    return see_other(urls.job(row.job.id))


async def _groups(visitor: Visitor, wanted: Filter, typed: ParkedFilter, by: GroupBy) -> Sequence[Group]:
    found = (await service.grouped(visitor.caller, wanted, [by]))[:GROUPS]
    values = [each.values[by.value] for each in found]
    names = await names_of(visitor.context, values) if by is GroupBy.SUBSCRIPTION else {}
    return [
        Group(
            label=names.get(value or "", value or "none"),
            count=each.count,
            oldest=each.oldest,
            href=urls.with_query(urls.PARKED, {**typed.query, by.value: value or "", "group": by.value}),
        )
        for each, value in zip(found, values, strict=True)
    ]


def _with_entry(page: EntryPage, entry: ParkedEntry) -> EntryPage:
    """Return the page with everything that only the queue has."""
    size = len(entry.body)
    shown = replace(
        page,
        payload=entry.body[:PAYLOAD_MAX],
        payload_note=f"Only the first {PAYLOAD_MAX:,} bytes are shown." if size > PAYLOAD_MAX else "",
        size_bytes=size,
    )
    if entry.raw is not None:
        raw = entry.raw
        return replace(
            shown,
            content_type=raw.content_type or "",
            headers=_headers(raw.headers),
            event_id=raw.message_id or "",
        )
    if entry.delivery is None:
        return shown
    delivery, event = entry.delivery, entry.delivery.event
    attempts = delivery.all_attempts
    return replace(
        shown,
        event_id=event.id,
        delivery_id=delivery_id(event.id, delivery.targets[0] if delivery.targets else ""),
        arrived_at=delivery.first_arrived_at,
        content_type=event.content_type or "",
        headers=_headers({"tenant": event.tenant, "type": event.type, **event.trace}),
        attempts=attempts,
        forgotten_attempts=max(0, delivery.made_in_all - len(attempts)),
    )


def _headers(headers: Mapping[str, object]) -> Sequence[tuple[str, str]]:
    return [(name, as_text(value) or "") for name, value in headers.items()]


def _why_no_payload(problem: Problem) -> str:
    if problem.status == 409:
        return f"The payload cannot be read now: {problem}. Open the page again in a moment."
    if problem.status == 404:
        return "The entry is no longer in the queue: it was resent, purged, or has expired."
    return "The broker is away, so the payload cannot be read now."
