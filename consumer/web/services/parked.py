"""List, count and replay parked entries, by the index in the store; no message of the queue is touched.

Data flow: values of a request -> Filter -> index -> rows, groups, counts, a replay job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.message.jobs import JobRow
from consumer.core.message.parked_filter import Filter, GroupBy, ParkedGroup
from consumer.core.message.records import ParkedRow
from consumer.core.model import ParkReason
from consumer.core.operate.dry_run import KEYS, DryRun
from consumer.core.operate.dry_run import dry_run as dry_run_of
from consumer.edges.operate.parked.count import count_parked
from consumer.edges.operate.parked.jobs import ReplayHow, make_job, target_of
from consumer.edges.store.rows.parked_queries import Place
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.shared.cursors import PageRequest
from consumer.web.shared.moments import place_in, place_text, subscription_id
from consumer.web.shared.problems import Problem
from topology.names import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedAsk:
    """The filter of a request; None sets no condition."""

    ids: frozenset[str] | None = None
    tenant: str | None = None
    type: str | None = None  #: an AMQP topic pattern
    reason: str | None = None
    subscription: str | None = None  #: its id, or ``tenant/name``
    since: float | None = None  #: Unix seconds
    until: float | None = None


@dataclass(frozen=True, slots=True)
class ParkedList:
    """One page of parked entries."""

    rows: Sequence[ParkedRow]  #: newest first
    total: int  #: entries of the filter
    next: str | None  #: cursor of the next page


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedStats:
    """Counts of the entries of a filter."""

    entries: int
    oldest: float | None  #: Unix seconds
    newest: float | None
    tenants: int
    subscriptions: int
    by_reason: Mapping[str, int]
    by_status: Mapping[str, int]
    in_queue: (
        int | None
    )  #: messages of all tenants in the queue; None: unknown, or a command has them in hand
    gap: int | None  #: messages that the index lacks; negative: it has too many; None: unknown


async def chosen(caller: Caller, ask: ParkedAsk) -> Filter:
    """Return the filter of a request, for the only tenant that the caller may see.

    Raises:
        Problem: 404: it names another tenant; 422: a subscription or a reason is not valid.
    """
    if ask.tenant and not caller.sees(ask.tenant):
        raise Problem(404, "there is no such tenant", field="tenant")
    if ask.reason and ask.reason not in set(ParkReason):
        remedy = f"one of {', '.join(ParkReason)}"
        raise Problem(422, "there is no such reason", field="reason", remedy=remedy)
    return Filter(
        ids=ask.ids,
        tenant=caller.tenant or ask.tenant or None,
        type=ask.type or None,
        reason=ask.reason or None,
        subscription=subscription_id(ask.subscription),
        since=ask.since,
        until=ask.until,
    )


async def listed(caller: Caller, chosen: Filter, page: PageRequest) -> ParkedList:
    """Return a page of the index, newest first.

    Raises:
        Problem: 422: the cursor is not valid.
        StoreUnavailable: the store cannot be read.
    """
    after = place_in(page.after)
    parked = caller.context.store.records.parked
    found = await parked.page(chosen, page.size + 1, None if after is None else Place(*after))
    rows = found[: page.size]
    more = len(found) > page.size
    total = (await parked.span(chosen)).entries
    return ParkedList(rows, total, page.cursor(place_text(rows[-1].parked_at, rows[-1].id)) if more else None)


async def grouped(caller: Caller, chosen: Filter, by: Sequence[GroupBy]) -> Sequence[ParkedGroup]:
    """Return the entries of a filter, counted by some fields, the largest group first.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    return await caller.context.store.records.parked.groups(chosen, list(dict.fromkeys(by)))


async def stats(caller: Caller, chosen: Filter) -> ParkedStats:
    """Return counts of the entries of a filter.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    parked = caller.context.store.records.parked
    span = await parked.span(chosen)
    reasons, codes, owners = [
        await parked.groups(chosen, keys)
        for keys in ([GroupBy.REASON], [GroupBy.STATUS], [GroupBy.TENANT, GroupBy.SUBSCRIPTION])
    ]
    in_queue = None if caller.tenant is not None else await queue_size(caller.context)
    indexed = await caller.context.store.records.count_parked()
    return ParkedStats(
        entries=span.entries,
        oldest=span.oldest,
        newest=span.newest,
        tenants=len({group.values["tenant"] for group in owners} - {None}),
        subscriptions=len(
            {each for group in owners for each in (group.values["subscription"] or "").split()}
        ),
        by_reason={group.values["reason"] or "": group.count for group in reasons},
        by_status={group.values["status"] or "none": group.count for group in codes},
        in_queue=in_queue,
        gap=None if in_queue is None else in_queue - indexed,
    )


async def queue_size(context: WebContext) -> int | None:
    """Return the messages in the parked queue; None if a command has them in hand, or the broker is away."""
    with suppress(BrokerUnavailable):
        connection = await context.broker.connection()
        size = await count_parked(connection, Names(context.settings.topology.prefix))
        return None if size.consumers else size.ready
    return None


async def row(caller: Caller, entry_id: str) -> ParkedRow:
    """Return the row of one entry from the index, without its payload.

    Raises:
        Problem: 404: the index has no such entry.
        StoreUnavailable: the store cannot be read.
    """
    found = await caller.context.store.records.parked.one(entry_id)
    if found is None or not caller.sees(found.tenant):
        raise unknown()
    return found


async def dry_run(caller: Caller, chosen: Filter, to: str | None = None) -> DryRun:
    """Return how many entries a replay would send, and how many would stay, by the index alone.

    Args:
        caller: Who asks.
        chosen: The filter.
        to: Id, ``tenant/name`` or URL of the subscription that would get the deliveries; None: their own.

    Raises:
        Problem: 422: there is no such subscription.
        StoreUnavailable: the store cannot be read.
    """
    context = caller.context
    target = None if not to else await _target(caller, to)
    groups = await context.store.records.parked.groups(chosen, KEYS)
    ids = {each for group in groups for each in (group.values["subscription"] or "").split()}
    known = await context.lookup.subscriptions_by_id(ids | ({target} if target else set()))
    return dry_run_of(groups, {key: brief.tenant for key, brief in known.items()}, target)


async def replay(caller: Caller, chosen: Filter, how: ReplayHow) -> JobRow:
    """Make a job that replays the entries of a filter; a worker works it off.

    Args:
        caller: Author of the job.
        chosen: The filter.
        how: Rate and target; ``to`` may be an id, ``tenant/name`` or a URL.

    Raises:
        Problem: 422: there is no such subscription.
        StoreUnavailable: the store cannot be written.
    """
    context = caller.context
    to = await _target(caller, how.to) if how.to else None
    exact = ReplayHow(rate_per_s=how.rate_per_s, to=to)
    return await make_job(context.store, chosen, exact, who=caller.who, now=context.clock.now())


async def replay_one(caller: Caller, entry_id: str) -> JobRow:
    """Make a job that replays one entry.

    Raises:
        Problem: 404: the index has no such entry.
        StoreUnavailable: the store cannot be written.
    """
    found = await row(caller, entry_id)
    tenant = found.tenant if found.subscription_ids else caller.tenant
    return await replay(caller, Filter(ids=frozenset({entry_id}), tenant=tenant), ReplayHow())


async def _target(caller: Caller, to: str) -> str:
    """Return the id of the subscription *to*, among those that the caller may see.

    Raises:
        Problem: 422.
    """
    try:
        return target_of(await caller.context.store.entries(caller.tenant), to)
    except ConfigError as error:
        detail, _, remedy = str(error).partition("; ")
        raise Problem(422, detail, field="to", remedy=remedy) from None


def unknown() -> Problem:
    return Problem(404, "no such entry is parked", field="entry", remedy="list the parked entries")
