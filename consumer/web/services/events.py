"""Trace events, and list deliveries and attempts.

Data flow: values of a request -> Listing or id -> history, index of parked entries, subscriptions -> traces,
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from consumer.core.history.listing import Listing
from consumer.core.history.records import HistoryRow
from consumer.core.history.status import DeliveryStatus
from consumer.core.history.trace import DeliveryTrace, EventTrace
from consumer.core.text.ids import event_id as webhook_id
from consumer.edges.inquire.listings import Listings
from consumer.edges.operate.inquiry import Ask, Inquiry
from consumer.web.access.guard import Caller
from consumer.web.shared.cursors import PageRequest
from consumer.web.shared.moments import number_in, subscription_id
from consumer.web.shared.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAsk:
    """The filter of a request; an empty text or None sets no condition."""

    tenant: str = ""
    subscription: str = ""  #: its id, or ``tenant/name``
    type: str = ""  #: an AMQP topic pattern
    failed: bool = False
    since: float | None = None  #: Unix seconds
    until: float | None = None
    status: DeliveryStatus | None = None  #: of deliveries only
    code: str = ""  #: of attempts only: a status such as ``503``, or a kind such as ``timeout_total``


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """One page of deliveries, each with its event, the one with the newest step first."""

    items: Sequence[tuple[EventTrace, DeliveryTrace]]
    next: str | None


@dataclass(frozen=True, slots=True)
class AttemptPage:
    """One page of attempts, newest first."""

    items: Sequence[HistoryRow]
    next: str | None


async def traces(
    caller: Caller, event_id: str, tenant: str = "", subscription: str = ""
) -> Sequence[EventTrace]:
    """Return the traces of an event: several if tenants share the id.

    Args:
        caller: Who asks.
        event_id: The producer's id, or the ``webhook-id`` that was made of it.
        tenant: Only of this tenant; empty: of each that the caller may see.
        subscription: A subscription that must be known, as ``tenant/name`` or id; empty: none.

    Raises:
        Problem: 404: nothing is known of it; 422: nothing is known of the subscription.
        StoreUnavailable: the history or the store cannot be read.
    """
    found: Sequence[EventTrace] = ()
    wanted = _tenant(caller, tenant)
    now = caller.context.clock.now()
    for of in dict.fromkeys((event_id, webhook_id(event_id))):
        found = found or await _inquiry(caller).event(of, now, tenant=wanted)
    if not found:
        remedy = "check the id; its steps may be older than [history] max_age_s"
        raise Problem(404, "nothing is known of this event", field="event_id", remedy=remedy)
    await _demand_subscription(caller, subscription, found)
    return found


async def newest(caller: Caller, ask: Ask, subscription: str = "") -> Sequence[EventTrace]:
    """Return traces of the newest deliveries of a filter, each with this one delivery, in order of time.

    Args:
        caller: Who asks.
        ask: The filter.
        subscription: Its subscription as the caller named it.

    Raises:
        Problem: 404: the tenant; 422: neither the store nor the history knows the subscription.
        StoreUnavailable: the history or the store cannot be read.
    """
    wanted = replace(ask, tenant=_tenant(caller, ask.tenant))
    found = await _inquiry(caller).deliveries(wanted, caller.context.clock.now())
    seen = [event for event in found if caller.sees(event.key.tenant)]
    await _demand_subscription(caller, subscription, seen)
    return seen


async def _demand_subscription(caller: Caller, named: str, found: Sequence[EventTrace]) -> None:
    """Refuse the name of a subscription that neither the store nor the history knows; empty passes.

    Raises:
        Problem: 422.
    """
    wanted = subscription_id(named)
    if wanted is None or any(wanted == each.subscription_id for event in found for each in event.deliveries):
        return
    brief = await caller.context.lookup.subscription(wanted)
    if brief is None or not caller.sees(brief.tenant):
        detail = f"no subscription {named!r}, and no history of one"
        raise Problem(422, detail, remedy="see `leveret subscriptions list`")


async def delivery(caller: Caller, delivery_id: str) -> tuple[EventTrace, DeliveryTrace]:
    """Return one delivery with its event.

    Raises:
        Problem: 404: nothing is known of it.
        StoreUnavailable: the history or the store cannot be read.
    """
    ask = Ask(delivery_id=delivery_id, limit=1)
    for event in await _inquiry(caller).deliveries(ask, caller.context.clock.now()):
        if event.deliveries and caller.sees(event.key.tenant):
            return event, event.deliveries[0]
    remedy = "a delivery that succeeded at its first attempt is found by its event id"
    raise Problem(404, "nothing is known of this delivery", field="delivery_id", remedy=remedy)


async def deliveries(caller: Caller, ask: DeliveryAsk, page: PageRequest) -> DeliveryPage:
    """Return a page of deliveries; a page may be short, even empty, and still have a next one.

    Raises:
        Problem: 404: the tenant; 422: the cursor or the subscription.
        StoreUnavailable: the history or the store cannot be read.
    """
    found = await _listings(caller).deliveries(
        _listing(caller, ask), page.size, caller.context.clock.now(), number_in(page.after)
    )
    return DeliveryPage(found.items, None if found.next is None else page.cursor(str(found.next)))


async def attempts(caller: Caller, ask: DeliveryAsk, page: PageRequest) -> AttemptPage:
    """Return a page of attempts; a page may be short, even empty, and still have a next one.

    Raises:
        Problem: 404: the tenant; 422: the cursor or the subscription.
        StoreUnavailable: the history or the store cannot be read.
    """
    found = await _listings(caller).attempts(_listing(caller, ask), page.size, number_in(page.after))
    return AttemptPage(found.items, None if found.next is None else page.cursor(str(found.next)))


def _listing(caller: Caller, ask: DeliveryAsk) -> Listing:
    return Listing(
        tenant=_tenant(caller, ask.tenant),
        subscription_id=subscription_id(ask.subscription) or "",
        type=ask.type,
        failed=ask.failed,
        since=ask.since,
        until=ask.until,
        status=ask.status,
        code=ask.code,
    )


def _tenant(caller: Caller, tenant: str) -> str:
    """Return the tenant to which a request is limited; empty: all.

    Raises:
        Problem: 404: the caller may not see it.
    """
    if tenant and not caller.sees(tenant):
        raise Problem(404, "there is no such tenant", field="tenant")
    return caller.tenant or tenant


def _inquiry(caller: Caller) -> Inquiry:
    return Inquiry(caller.context.history, caller.context.lookup)


def _listings(caller: Caller) -> Listings:
    return Listings(caller.context.history, caller.context.lookup)
