"""``/v1/parked``: list, count, show, replay and purge parked entries."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from consumer.core.message.jobs import JobRow, job_as_dict
from consumer.core.message.parked import entry_as_dict, rfc3339
from consumer.core.message.parked_filter import Filter, GroupBy
from consumer.core.message.parked_filter import ParkedGroup as Group
from consumer.core.message.records import row_as_dict
from consumer.core.operate.parked_payload import headers_as_text, payload_as_dict
from consumer.edges.operate.parked.jobs import ReplayHow
from consumer.web.access.guard import Caller, Operator, Reader
from consumer.web.models.parked import (
    DryRunOut,
    Job,
    ParkedEntry,
    ParkedFilterIn,
    ParkedGroup,
    ParkedGroups,
    ParkedHeader,
    ParkedPage,
    ParkedPayload,
    ParkedStats,
    PurgedOut,
    PurgeIn,
    Reindexed,
    ReplayIn,
)
from consumer.web.parameters import Paging
from consumer.web.routes.filters import Since, Subscription, Tenant, Type, Until
from consumer.web.services import parked as service
from consumer.web.services import parked_queue as queue
from consumer.web.services.parked import ParkedAsk
from consumer.web.shared.moments import moment

router = APIRouter(prefix="/v1/parked", tags=["parked"])

EntryId = Annotated[str, Path(max_length=64, description="prk_ and 16 hex digits.")]
By = Annotated[
    list[GroupBy], Query(min_length=1, max_length=5, description="Fields to count by; may be repeated.")
]


async def _named(
    tenant: Tenant = None,
    subscription: Subscription = None,
    type: Type = None,
    reason: Annotated[str | None, Query(max_length=64, description="Only with this reason.")] = None,
    ids: Annotated[list[str] | None, Query(alias="id", max_length=100, description="Only these.")] = None,
) -> ParkedFilterIn:
    return ParkedFilterIn(tenant=tenant, subscription=subscription, type=type, reason=reason, ids=ids)


async def _chosen(
    caller: Reader,
    named: Annotated[ParkedFilterIn, Depends(_named)],
    since: Since = None,
    until: Until = None,
) -> Filter:
    return await _filter(caller, named.model_copy(update={"since": since, "until": until}))


Chosen = Annotated[Filter, Depends(_chosen)]


@router.get("", response_model_exclude_unset=True)
async def list_parked(caller: Reader, chosen: Chosen, page: Paging) -> ParkedPage:
    """List the parked entries, newest first, from the index: no entry is touched."""
    found = await service.listed(caller, chosen, page)
    items = [ParkedEntry.model_validate(row_as_dict(row)) for row in found.rows]
    return ParkedPage(items=items, next=found.next, total=found.total)


@router.get("/groups")
async def group_parked(
    caller: Reader,
    chosen: Chosen,
    by: By,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Most groups.")] = 100,
) -> ParkedGroups:
    """Count the parked entries by some fields, the largest group first."""
    found = await service.grouped(caller, chosen, by)
    return ParkedGroups(items=[_group(each) for each in found[:limit]], groups=len(found))


@router.get("/stats")
async def parked_stats(caller: Reader, chosen: Chosen) -> ParkedStats:
    """Count the parked entries, and show since when they are parked, and for whom."""
    found = await service.stats(caller, chosen)
    times = {"oldest": _time(found.oldest), "newest": _time(found.newest)}
    return ParkedStats.model_validate(asdict(found) | times)


@router.get("/dry-run")
async def dry_run_replay(
    caller: Reader,
    chosen: Chosen,
    to: Annotated[str | None, Query(max_length=2_048, description="As `to` of a replay.")] = None,
) -> DryRunOut:
    """Count the entries that a replay would send, and those that would stay; nothing is sent."""
    found = await service.dry_run(caller, chosen, to)
    return DryRunOut(total=found.total, sends=[_group(each) for each in found.sends], stays=dict(found.stays))


@router.post("/replay", status_code=202)
async def replay_parked(how: ReplayIn, caller: Operator, response: Response) -> Job:
    """Make a job that sends the entries of a filter again; a worker works it off."""
    chosen = await _filter(caller, how)
    return _job(
        await service.replay(caller, chosen, ReplayHow(rate_per_s=how.rate_per_s, to=how.to)), response
    )


@router.post("/purge", response_model_exclude_unset=True)
async def purge_parked(what: PurgeIn, caller: Operator) -> PurgedOut:
    """Move the entries of a filter out of the queue; each is written to the archive first, body included."""
    gone = await queue.purge_entries(caller, await _filter(caller, what), confirm=what.confirm)
    items = [ParkedEntry.model_validate(entry_as_dict(entry)) for entry in gone] if what.show else None
    archive = None if caller.tenant is not None else str(caller.context.settings.home / "archive")
    return PurgedOut(purged=len(gone), archive=archive, items=items)


@router.post("/reindex")
async def reindex_parked(caller: Operator) -> Reindexed:
    """Make the index anew, in one pass over the queue; all entries stay parked."""
    return Reindexed.model_validate(asdict(await queue.reindex(caller)))


@router.get("/{entry}", response_model_exclude_unset=True)
async def show_parked(entry: EntryId, caller: Reader) -> ParkedPayload:
    """Show one entry with its exact payload and every attempt; it stays parked.

    409 names the command that has the entries in hand.
    """
    found = await queue.show(caller, entry)
    headers = [ParkedHeader(name=name, value=value) for name, value in headers_as_text(found)]
    shown = entry_as_dict(found) | payload_as_dict(found.body)
    return ParkedPayload.model_validate(shown | {"headers": headers})


@router.post("/{entry}/replay", status_code=202)
async def replay_entry(entry: EntryId, caller: Operator, response: Response) -> Job:
    """Make a job that sends one entry again."""
    return _job(await service.replay_one(caller, entry), response)


async def _filter(caller: Caller, named: ParkedFilterIn) -> Filter:
    now = caller.context.clock.now()
    ask = ParkedAsk(
        ids=None if named.ids is None else frozenset(named.ids),
        tenant=named.tenant,
        type=named.type,
        reason=named.reason,
        subscription=named.subscription,
        since=moment(named.since, "since", now),
        until=moment(named.until, "until", now),
    )
    return await service.chosen(caller, ask)


def _job(row: JobRow, response: Response) -> Job:
    response.headers["Location"] = f"/v1/jobs/{row.job.id}"
    return Job.model_validate(job_as_dict(row))


def _group(group: Group) -> ParkedGroup:
    times = {"oldest": rfc3339(group.oldest), "newest": rfc3339(group.newest)}
    return ParkedGroup.model_validate(asdict(group) | times)


def _time(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
