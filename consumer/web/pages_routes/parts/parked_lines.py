"""Turn parked entries and jobs into lines of tables, with the names of their subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from consumer.core.message.jobs import JobRow
from consumer.core.message.records import ParkedRow
from consumer.web.context import WebContext
from consumer.web.pages.filters import clock_time
from consumer.web.pages.views.jobs import JobLine
from consumer.web.pages.views.parked import ParkedLine


async def names_of(context: WebContext, ids: Iterable[str | None]) -> Mapping[str, str]:
    """Return ``tenant/name`` of each subscription of *ids* that exists, by its id.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    found = await context.lookup.subscriptions_by_id({each for each in ids if each})
    return {key: brief.full_name for key, brief in found.items()}


async def parked_lines(context: WebContext, rows: Sequence[ParkedRow]) -> Sequence[ParkedLine]:
    """Return parked entries as tables show them, with the names of their subscriptions.

    Raises:
        StoreUnavailable: the names cannot be read.
    """
    names = await names_of(context, {of for row in rows for of in row.subscription_ids[:1]})
    return [_parked_line(row, names) for row in rows]


def _parked_line(row: ParkedRow, names: Mapping[str, str]) -> ParkedLine:
    subscription = row.subscription_ids[0] if row.subscription_ids else ""
    return ParkedLine(
        id=row.id,
        parked_at=row.parked_at,
        expires_at=row.expires_at,
        tenant=row.tenant or "",
        type=row.type or "",
        subscription_id=subscription,
        subscription=names.get(subscription, ""),
        reason=row.reason,
        detail=row.detail,
        code=row.code or "",
        attempts=row.attempts,
        replays=row.replays,
    )


async def job_lines(context: WebContext, rows: Sequence[JobRow]) -> Sequence[JobLine]:
    """Return jobs as tables show them.

    Raises:
        StoreUnavailable: the names of their subscriptions cannot be read.
    """
    named = {of for row in rows for of in (row.job.to, row.job.chosen.subscription) if of}
    names = await names_of(context, named)
    now = context.clock.now()
    return [_job_line(row, names, now) for row in rows]


def _job_line(row: JobRow, names: Mapping[str, str], now: float) -> JobLine:
    job, counts = row.job, row.counts
    return JobLine(
        id=job.id,
        state=job.state.value,
        origin=job.origin.value,
        filter=_filter_words(row, names, now),
        created=job.created,
        updated=row.updated,
        replayed=counts.replayed,
        refused=counts.refused,
        total=job.total,
        rate_per_s=job.rate_per_s,
        to="" if job.to is None else names.get(job.to, job.to),
        detail=counts.detail,
        worker=row.holder,
    )


def _filter_words(row: JobRow, names: Mapping[str, str], now: float) -> str:
    """Return the filter of a job in words, such as ``tenant acme, reason exhausted``."""
    chosen = row.job.chosen
    subscription = chosen.subscription
    ids = sorted(chosen.ids or ())
    some = f"entry {ids[0]}" if len(ids) == 1 else f"{len(ids)} entries" if ids else ""
    parts = (
        some,
        f"tenant {chosen.tenant}" if chosen.tenant else "",
        f"subscription {names.get(subscription, subscription)}" if subscription else "",
        f"type {chosen.type}" if chosen.type else "",
        f"reason {chosen.reason}" if chosen.reason else "",
        " or ".join(sorted(row.job.reasons)),
        f"parked since {clock_time(chosen.since, now)}" if chosen.since is not None else "",
        f"parked before {clock_time(chosen.until, now)}" if chosen.until is not None else "",
    )
    return ", ".join(filter(None, parts))
