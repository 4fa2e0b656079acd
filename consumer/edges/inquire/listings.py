"""List attempts and deliveries, newest first, in pages of bounded cost.

Data flow: Listing, place of the page -> batches of rows -> attempts, or traces of single deliveries.

A page reads at most :data:`ROWS_MAX` rows. If few of them are wanted it is shorter than asked for, even
empty, and its *next* leads on: so a filter without an index never makes a request slow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from consumer.core.history.listing import Listing
from consumer.core.history.records import HistoryRow, Query, StoredStep
from consumer.core.history.trace import DeliveryTrace, EventKey, EventTrace, Evidence, trace
from consumer.core.message.parked_filter import fits
from consumer.core.message.records import ParkedRow
from consumer.core.subscription.brief import SubscriptionBrief
from consumer.edges.history.history_store import HistoryReader
from consumer.edges.operate.inquiry import parked_now
from consumer.edges.store import StoreLookup

ROWS_MAX: Final = 2_000  #: rows that one page reads to choose from
CHECK: Final = 100  #: deliveries whose steps are read together
CHECKED_MAX: Final = 500  #: deliveries whose steps one page reads
BATCH: Final = 500  #: rows of one query
SUBSCRIPTIONS_MAX: Final = 100  #: subscriptions that one query reads by their index
EVENT_ROWS: Final = 20_000  #: rows of the deliveries that are read together


class DeliveryKey(NamedTuple):
    """The identity of a delivery in the history."""

    event_id: str
    tenant: str
    subscription_id: str


@dataclass(frozen=True, slots=True)
class AttemptPage:
    """Attempts, newest first."""

    items: Sequence[HistoryRow]
    next: int | None  #: the page after it has only rows with a smaller *seq*; None: there is none


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Deliveries, the one with the newest step first; each event has this one delivery."""

    items: Sequence[tuple[EventTrace, DeliveryTrace]]
    next: int | None  #: as of :class:`AttemptPage`


class Listings:
    """Answers from the history and the store."""

    def __init__(self, history: HistoryReader, lookup: StoreLookup) -> None:
        """Bind to open readers."""
        self._history = history
        self._lookup = lookup

    async def attempts(self, wanted: Listing, size: int, before: int | None = None) -> AttemptPage:
        """Return a page of attempts.

        Args:
            wanted: The conditions.
            size: Most attempts.
            before: Only rows with a smaller *seq*.

        Raises:
            StoreUnavailable: the history or the store cannot be read.
        """
        found: list[HistoryRow] = []
        last = before
        wanted = replace(wanted, attempts_only=True)
        async for batch in self._batches(wanted, before):
            for step in batch:
                last = step.seq
                if wanted.takes(step.row, fits):
                    found.append(step.row)
                if len(found) == size:
                    return AttemptPage(found, last)
            if len(batch) < BATCH:
                return AttemptPage(found, None)
        return AttemptPage(found, last)

    async def deliveries(
        self, wanted: Listing, size: int, now: float, before: int | None = None
    ) -> DeliveryPage:
        """Return a page of deliveries. Each is in the list once, at its newest wanted step.

        Args:
            wanted: The conditions.
            size: Most deliveries.
            now: Unix seconds.
            before: Only steps with a smaller *seq*.

        Raises:
            StoreUnavailable: the history or the store cannot be read.
        """
        found: list[tuple[EventTrace, DeliveryTrace]] = []
        seen: set[DeliveryKey] = set()
        checked, last = 0, before
        async for batch in self._batches(wanted, before):
            fresh = _fresh(wanted, batch, seen)
            for some in (fresh[start : start + CHECK] for start in range(0, len(fresh), CHECK)):
                for step, event, one in await self._newest(wanted, some, now):
                    found.append((event, one))
                    if len(found) == size:
                        return DeliveryPage(found, step.seq)
                checked += len(some)
                if checked >= CHECKED_MAX:
                    return DeliveryPage(found, some[-1].seq)
            last = batch[-1].seq if batch else last
            if len(batch) < BATCH:
                return DeliveryPage(found, None)
        return DeliveryPage(found, last)

    async def _newest(
        self, wanted: Listing, chosen: Sequence[StoredStep], now: float
    ) -> Sequence[tuple[StoredStep, EventTrace, DeliveryTrace]]:
        """Return the deliveries of which *chosen* has the newest wanted step, and whose status is wanted."""
        ids = sorted({step.row.subscription_id for step in chosen})
        events = sorted({step.row.event_id for step in chosen})
        rows: dict[DeliveryKey, list[StoredStep]] = {}
        of = Query(event_ids=events, subscription_ids=ids, limit=EVENT_ROWS)
        for step in await self._history.steps(of):
            rows.setdefault(_key(step.row), []).append(step)
        parked = await self._lookup.parked_of(events)
        names = await self._lookup.subscriptions_by_id(ids)
        found = []
        for step in chosen:
            steps = rows.get(_key(step.row), [step])
            if any(each.seq > step.seq and wanted.takes(each.row, fits) for each in steps):
                continue
            event, delivery = _traced(steps, parked, names, now)
            if wanted.status in (None, delivery.state.status):
                found.append((step, event, delivery))
        return found

    async def _batches(self, wanted: Listing, before: int | None) -> AsyncIterator[Sequence[StoredStep]]:
        """Yield rows that may be wanted, newest first, at most :data:`ROWS_MAX`."""
        query = await self._query(wanted)
        if query is None:
            return
        for _ in range(ROWS_MAX // BATCH):
            batch = (await self._history.steps(replace(query, before=before)))[::-1]
            yield batch
            if len(batch) < BATCH:
                return
            before = batch[-1].seq

    async def _query(self, wanted: Listing) -> Query | None:
        """Return a query that an index answers, or that reads the newest rows; None if there is no row.

        The history has no index of tenants, so the subscriptions of the tenant are read instead.
        """
        query = Query(
            subscription_id=wanted.subscription_id,
            failed_only=wanted.only_failures,
            since=wanted.since or 0.0,
            until=wanted.until or 0.0,
            limit=BATCH,
        )
        if not wanted.tenant or wanted.subscription_id:
            return query
        if wanted.only_failures:
            return replace(query, tenant=wanted.tenant)
        ids = await self._lookup.ids_of(wanted.tenant)
        if not ids:
            return None
        return replace(query, subscription_ids=ids) if len(ids) <= SUBSCRIPTIONS_MAX else query


def _fresh(wanted: Listing, batch: Sequence[StoredStep], seen: set[DeliveryKey]) -> Sequence[StoredStep]:
    """Return the wanted steps of deliveries that are not in *seen*, and add these deliveries to it."""
    fresh = []
    for step in batch:
        if wanted.takes(step.row, fits) and (key := _key(step.row)) not in seen:
            seen.add(key)
            fresh.append(step)
    return fresh


def _key(row: HistoryRow) -> DeliveryKey:
    return DeliveryKey(row.event_id, row.tenant, row.subscription_id)


def _traced(
    steps: Sequence[StoredStep],
    parked: Collection[ParkedRow],
    names: Mapping[str, SubscriptionBrief],
    now: float,
) -> tuple[EventTrace, DeliveryTrace]:
    """Return the trace of one delivery."""
    of, kind = _key(steps[0].row), steps[0].row.type
    here = [
        each
        for one in parked
        if (one.event_id, one.tenant) == (of.event_id, of.tenant)
        for each in parked_now(one)
        if each.subscription_id == of.subscription_id
    ]
    known = names.get(of.subscription_id)
    evidence = Evidence(
        rows=[step.row for step in steps],
        parked=here,
        subscriptions=() if known is None else (known,),
    )
    event = trace(EventKey(of.event_id, of.tenant, kind), evidence, now)
    return event, event.deliveries[0]
