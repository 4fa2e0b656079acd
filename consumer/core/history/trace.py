"""Trace one event: its deliveries, their states, and the subscriptions that did not get it.

Data flow: rows, parked index, waiting deliveries, subscriptions -> :func:`trace` -> ``leveret trace``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumer.core.history.records import HistoryRow, is_failure
from consumer.core.history.status import (
    DeliveryState,
    DeliveryStatus,
    ended_at,
    in_order,
    is_of_delivery,
    state_of,
)
from consumer.core.subscription.brief import MatchNow, SubscriptionBrief, match_now


class ParkedNow(NamedTuple):
    """A line of the index of parked entries. A message that never became an event has no subscription."""

    entry_id: str
    subscription_id: str
    reason: str
    detail: str
    attempts: int
    parked_at: float  #: Unix seconds, as all times here
    expires_at: float


class WaitingNow(NamedTuple):
    """A delivery that was seen on the ladder."""

    subscription_id: str
    attempts: int  #: made so far
    until: float


class EventKey(NamedTuple):
    """Two tenants may have events with the same id."""

    event_id: str
    tenant: str
    type: str


class Miss(NamedTuple):
    """A subscription of the event's tenant without a step, and its match as it is configured now."""

    subscription: SubscriptionBrief
    match: MatchNow


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTrace:
    """All that is known of one delivery."""

    subscription_id: str  #: empty: a message that was parked before it became an event
    name: str  #: ``tenant/name``; empty if the subscription is gone
    state: DeliveryState
    rows: Sequence[HistoryRow]  #: in order
    parked: ParkedNow | None
    waiting: WaitingNow | None

    @property
    def attempts(self) -> int:
        """Return the number of attempts, as far as it is known."""
        known = [0 if found is None else found.attempts for found in (self.parked, self.waiting)]
        return max([*known, *(row.number for row in self.rows if row.step in ("attempt", "parked"))])

    @property
    def failed(self) -> bool:
        """Return whether an attempt failed, or the delivery is parked."""
        return self.state.status is DeliveryStatus.PARKED or any(map(is_failure, self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTrace:
    """All that is known of one event."""

    key: EventKey
    rows: Sequence[HistoryRow]  #: received, unmatched or settled, in order; several if it was taken again
    deliveries: Sequence[DeliveryTrace]
    misses: Sequence[Miss]  #: as of now, not as of then
    missing: int  #: subscriptions that matched when it was received, and of which no step is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that was found about one event."""

    rows: Sequence[HistoryRow]
    parked: Sequence[ParkedNow] = ()
    waiting: Sequence[WaitingNow] = ()
    subscriptions: Sequence[SubscriptionBrief] = ()  #: of the tenant


def trace(key: EventKey, found: Evidence, now: float) -> EventTrace:
    """Return the trace of the event *key*; *now* is in Unix seconds."""
    whole = [row for row in found.rows if not is_of_delivery(row)]
    names = {brief.id: brief.full_name for brief in found.subscriptions}
    parked = {one.subscription_id: one for one in found.parked}
    waiting = {one.subscription_id: one for one in found.waiting}
    grouped: dict[str, list[HistoryRow]] = {}
    for row in found.rows:
        if is_of_delivery(row):
            grouped.setdefault(row.subscription_id, []).append(row)
    deliveries = []
    for target in dict.fromkeys([*grouped, *parked, *waiting]):
        rows = in_order(grouped.get(target, []))
        deliveries.append(
            DeliveryTrace(
                subscription_id=target,
                name=names.get(target, ""),
                state=_state(rows, parked.get(target), waiting.get(target), now),
                rows=rows,
                parked=parked.get(target),
                waiting=waiting.get(target),
            )
        )
    known = {delivery.subscription_id for delivery in deliveries}
    matched = max((row.number for row in whole), default=0)
    return EventTrace(
        key=key,
        rows=in_order(whole),
        deliveries=sorted(deliveries, key=lambda each: (each.name or "~", each.subscription_id)),
        misses=[
            Miss(brief, match_now(brief, key.type)) for brief in found.subscriptions if brief.id not in known
        ],
        missing=max(matched - len(known), 0),
    )


def _state(
    rows: Sequence[HistoryRow], parked: ParkedNow | None, waiting: WaitingNow | None, now: float
) -> DeliveryState:
    """Return the state by the rows, unless the queues know something later."""
    state = state_of(rows, now)
    last = max(map(ended_at, rows), default=0.0)
    if waiting is not None:
        status = DeliveryStatus.WAITING if now < waiting.until else DeliveryStatus.DELIVERING
        until = waiting.until if now < waiting.until else None
        return DeliveryState(status, last or now, until)
    if parked is not None and (state is None or parked.parked_at >= last - ROUNDED_S):
        return DeliveryState(DeliveryStatus.PARKED, parked.parked_at)
    if state is None:
        raise ValueError("a delivery without rows is parked or waiting")
    return state


ROUNDED_S = 0.001
"""Times in the broker are whole milliseconds."""
