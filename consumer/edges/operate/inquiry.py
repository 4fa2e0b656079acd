"""Find out what happened to events: from the history and the store, without a touch of any queue.

Data flow: :class:`Ask` -> rows, index of parked entries, subscriptions -> ``core.history.trace``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from consumer.core.history.records import LIMIT_MAX, Query, Step, StoredStep, parted
from consumer.core.history.trace import EventKey, EventTrace, Evidence, ParkedNow, WaitingNow, trace
from consumer.core.message.records import ParkedRow
from consumer.core.subscription.brief import SubscriptionBrief
from consumer.edges.history.build import open_history
from consumer.edges.history.history_store import HistoryReader
from consumer.edges.store import StoreLookup, opened_lookup
from consumer.settings import Settings

EVENT_ROWS: Final = 20_000  #: most rows of one event
SUBSCRIPTIONS_MAX: Final = 100  #: subscriptions of a tenant that are asked one by one
RECENT_S: Final = 3_600.0
ROWS_EACH: Final = 20  #: rows that are read for each wanted delivery


class SeenWaiting(NamedTuple):
    """A delivery that was seen on the ladder."""

    key: EventKey
    delivery: WaitingNow


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Which deliveries to find; an empty text sets no condition."""

    delivery_id: str = ""
    subscription_id: str = ""
    tenant: str = ""
    failed: bool = False
    since: float = 0.0  #: Unix seconds
    limit: int = 20  #: most deliveries, the newest ones


class Inquiry:
    """Answers from the history and the store."""

    def __init__(self, history: HistoryReader, lookup: StoreLookup) -> None:
        """Bind to open readers."""
        self.history = history
        self.lookup = lookup
        self._known: dict[str, Sequence[SubscriptionBrief]] = {}  #: subscriptions by tenant

    async def event(
        self, event_id: str, now: float, *, tenant: str = "", waiting: Sequence[SeenWaiting] = ()
    ) -> Sequence[EventTrace]:
        """Return the trace of an event; several if tenants share the id, none if nothing is known.

        Args:
            event_id: Id of the event.
            now: Unix seconds.
            tenant: Only of this tenant; empty for all.
            waiting: Deliveries that were seen on the ladder.

        Raises:
            StoreUnavailable: the history or the store cannot be read.
        """
        steps = await self.history.steps(Query(event_id=event_id, tenant=tenant, limit=EVENT_ROWS))
        rows = list(parted(step.row for step in steps))
        parked = [each for each in await self.lookup.parked(event_id) if tenant in ("", each.tenant)]
        live = [each for each in waiting if each.key.event_id == event_id and tenant in ("", each.key.tenant)]
        types = {row.tenant: row.type for row in rows}
        types |= {one.tenant or "": one.type or "" for one in parked}
        types |= {each.key.tenant: each.key.type for each in live}
        found = []
        for of, kind in sorted(types.items()):
            evidence = Evidence(
                rows=[row for row in rows if row.tenant == of],
                parked=[each for one in parked if (one.tenant or "") == of for each in parked_now(one)],
                waiting=[each.delivery for each in live if each.key.tenant == of],
                subscriptions=await self._subscriptions(of),
            )
            found.append(trace(EventKey(event_id, of, kind), evidence, now))
        return found

    async def deliveries(
        self, ask: Ask, now: float, waiting: Sequence[SeenWaiting] = ()
    ) -> Sequence[EventTrace]:
        """Return traces of the newest matching deliveries, each with this one delivery, in order of time.

        An event that no subscription wanted has a trace without deliveries.

        Raises:
            StoreUnavailable: the history or the store cannot be read.
        """
        wanted = await self._wanted(ask, now)
        for seen in waiting:
            wanted.setdefault((seen.key.event_id, seen.key.tenant, seen.delivery.subscription_id))
        events: dict[str, Sequence[EventTrace]] = {}
        found = []
        for event_id, tenant, target in wanted:
            if event_id not in events:
                events[event_id] = await self.event(event_id, now, waiting=waiting)
            for each in events[event_id]:
                if each.key.tenant == tenant:
                    mine = [one for one in each.deliveries if one.subscription_id == target]
                    found.append(replace(each, deliveries=mine))
        return found

    async def _wanted(self, ask: Ask, now: float) -> dict[tuple[str, str, str], None]:
        """Return event, tenant and subscription of the newest matching deliveries, the oldest first."""
        query = Query(
            delivery_id=ask.delivery_id,
            subscription_id=ask.subscription_id,
            tenant=ask.tenant,
            failed_only=ask.failed,
            since=ask.since,
            limit=min(ask.limit * ROWS_EACH, LIMIT_MAX),
        )
        steps = [step for one in await self._indexed(query, now) for step in await self.history.steps(one)]
        newest: dict[tuple[str, str, str], None] = {}
        for step in sorted(steps, key=lambda step: (step.row.at, step.seq), reverse=True):
            if len(newest) < ask.limit and _counts(step):
                newest.setdefault((step.row.event_id, step.row.tenant, step.row.subscription_id))
        if ask.delivery_id and not newest:
            one = await self.lookup.parked_entry("prk_" + ask.delivery_id.removeprefix("dlv_"))
            if one is not None and one.event_id:
                newest[(one.event_id, one.tenant or "", " ".join(one.subscription_ids))] = None
        return dict.fromkeys(reversed(newest))

    async def _indexed(self, query: Query, now: float) -> Sequence[Query]:
        """Return queries that find the same deliveries by an index, where a tenant alone is asked for.

        The history has no index of tenants. Each subscription is asked instead, and the last hour for events
        that no subscription wanted.
        """
        if not query.tenant or query.failed_only or query.since or query.subscription_id or query.delivery_id:
            return [query]
        known = await self._subscriptions(query.tenant)
        if not 0 < len(known) <= SUBSCRIPTIONS_MAX:
            return [query]
        recent = replace(query, since=now - RECENT_S)
        return [recent, *(replace(query, subscription_id=each.id) for each in known)]

    async def _subscriptions(self, tenant: str) -> Sequence[SubscriptionBrief]:
        if not tenant:
            return ()
        if tenant not in self._known:
            self._known[tenant] = await self.lookup.subscriptions(tenant) or ()
        return self._known[tenant]


@asynccontextmanager
async def opened_inquiry(settings: Settings) -> AsyncIterator[Inquiry]:
    """Give an inquiry over the history and the store of *settings*, and close both afterwards.

    Raises:
        ConfigError: a file in the settings cannot be read.
    """
    history = open_history(settings)
    try:
        async with opened_lookup(settings) as lookup:
            yield Inquiry(history, lookup)
    finally:
        await history.close()


def _counts(step: StoredStep) -> bool:
    """Return whether a row belongs to a delivery, or to an unmatched event."""
    return bool(step.row.subscription_id) or step.row.step in (Step.UNMATCHED, Step.PARKED)


def parked_now(row: ParkedRow) -> Sequence[ParkedNow]:
    """Return a row of the index as a trace takes it, once for each subscription."""
    return [
        ParkedNow(row.id, target, row.reason, row.detail, row.attempts, row.parked_at, row.expires_at)
        for target in row.subscription_ids or ("",)
    ]
