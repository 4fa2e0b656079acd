"""Describe how a worker is shared among the tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from consumer.core.fairness.jain import jain
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.daemon_link import DaemonNow
from metrics.series import OTHER, tenant_of

TOP: Final = 3  #: the busiest tenants, whose share is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantNow:
    """One tenant. A number of the worker is None if the tenant has no series of its own there."""

    tenant: str
    subscriptions: int
    parked: int  #: entries of the index
    waiting: int | None  #: messages in the worker's hands that wait for their turn
    deliveries_per_s: float | None  #: jobs started
    share: float | None  #: part of all jobs that were started, 0 to 1; None while none is
    in_flight: int | None  #: deliveries in flight: the slots that it has
    rounds_waited: int | None  #: rounds since it was last served, or began to wait
    is_rerouted: bool  #: its events go by a spill queue


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantsNow:
    """The tenants, the rerouted and the busiest first, and how even the sharing is."""

    fairness: float | None  #: Jain's index of the last minute, from 0 to 1
    fairness_tenants: int | None  #: tenants that it covers
    slots: int | None  #: requests that all workers may have in flight
    slots_used: int | None  #: requests of this worker in flight
    borrowable: int | None  #: deliveries that one tenant may have in flight while no other waits
    rerouted: int | None  #: tenants whose events go by a spill queue
    in_lanes: int | None  #: events in the lanes, ready in the broker
    in_spill: int | None  #: events in the spill queues, ready in the broker
    lines: Sequence[TenantNow]
    worker_detail: str  #: why nothing is known of the worker; empty if it answers


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessDay:
    """The last 24 hours, the present one included; in each series the oldest hour is the first.

    A tenant without attempts within a time is not part of its index.
    """

    index: float | None  #: Jain's index of the attempts of the day; None without attempts
    hours: Sequence[float | None]  #: Jain's index by hour
    top: Sequence[str]  #: the tenants with most attempts
    top_share: float | None  #: part of all attempts that were theirs, 0 to 1
    top_hours: Sequence[float | None]  #: the same by hour


async def tenants(caller: Caller, q: str = "") -> TenantsNow:
    """Return the tenants whose name contains *q*; a caller with a tenant sees only that one.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    context = caller.context
    counts = await context.lookup.tenants()
    parked = await context.store.records.parked_sizes()
    now = await context.daemon.now()
    names = sorted(name for name in counts.keys() | parked.keys() if caller.sees(name) and q in name)
    lines = _lines(names, now if isinstance(now, DaemonNow) else None)
    found = [
        TenantNow(
            tenant=line.tenant,
            subscriptions=counts.get(line.tenant, 0),
            parked=parked.get(line.tenant, 0),
            waiting=line.waiting,
            deliveries_per_s=line.rate,
            share=line.share,
            in_flight=line.in_flight,
            rounds_waited=line.rounds,
            is_rerouted=line.is_rerouted,
        )
        for line in lines
    ]
    found.sort(key=_place)
    if not isinstance(now, DaemonNow) or caller.tenant is not None:
        why = "" if isinstance(now, DaemonNow) else str(now)
        return _unknown(found, "no worker answers" if why and caller.tenant is not None else why)
    return _known(found, now, context.settings.sending.concurrency)


async def fairness_day(context: WebContext) -> FairnessDay | None:
    """Return the fairness of the last day; None if the history has no delivered attempts.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    if context.settings.history.keep != "all":
        return None
    activity, owners = await context.activity.current(), await context.lookup.owners()
    return summed_up([_by_tenant(each, owners) for each in activity.hours(context.clock.now())])


def summed_up(hours: Sequence[Counter[str]]) -> FairnessDay:
    """Return the fairness of some hours, each with the attempts of each tenant."""
    day: Counter[str] = sum(hours, Counter())
    top = [tenant for tenant, _ in sorted(day.items(), key=lambda item: (-item[1], item[0]))[:TOP]]
    return FairnessDay(
        index=_index(day),
        hours=[_index(each) for each in hours],
        top=top,
        top_share=_share(day, top),
        top_hours=[_share(each, top) for each in hours],
    )


def _by_tenant(attempts: Mapping[str, int], owners: Mapping[str, str]) -> Counter[str]:
    """Return attempts by tenant; those of deleted subscriptions are left out."""
    found: Counter[str] = Counter()
    for target, count in attempts.items():
        if target in owners:
            found[owners[target]] += count
    return found


def _index(attempts: Counter[str]) -> float | None:
    return jain(attempts.values()) if attempts else None


def _share(attempts: Counter[str], tenants: Collection[str]) -> float | None:
    total = attempts.total()
    return sum(attempts[tenant] for tenant in tenants) / total if total else None


def _place(line: TenantNow) -> tuple[bool, float, int, str]:
    """Return the place in the list: rerouted tenants, then the busiest, then those that wait."""
    return not line.is_rerouted, -(line.deliveries_per_s or 0.0), -(line.waiting or 0), line.tenant


@dataclass(frozen=True, slots=True)
class _Line:
    tenant: str
    waiting: int | None = None
    rate: float | None = None
    share: float | None = None
    in_flight: int | None = None
    rounds: int | None = None
    is_rerouted: bool = False


def _lines(names: Sequence[str], now: DaemonNow | None) -> Sequence[_Line]:
    if now is None:
        return [_Line(name) for name in names]
    waiting = _own(now.page.by("leveret_tenant_waiting_messages", "tenant"))
    rounds = _own(now.page.by("leveret_tenant_rounds_waited", "tenant"))
    in_flight = _own(now.page.by("leveret_tenant_in_flight_deliveries", "tenant"))
    rerouted = _own(now.page.by("leveret_tenant_rerouted", "tenant"))
    all_rates = now.rates_by("leveret_tenant_jobs_total", "tenant")
    rates, total = _own(all_rates), sum(all_rates.values())
    return [
        _Line(
            tenant=name,
            waiting=_whole(waiting.get(name)),
            rate=rates.get(name),
            share=rates[name] / total if total and name in rates else None,
            in_flight=_whole(in_flight.get(name)),
            rounds=_whole(rounds.get(name)),
            is_rerouted=bool(rerouted.get(name)),
        )
        for name in names
    ]


def _own(values: dict[str, float]) -> dict[str, float]:
    """Return the values of tenants with series of their own, by the tenant."""
    return {tenant_of(label): value for label, value in values.items() if label != OTHER}


def _known(lines: Sequence[TenantNow], now: DaemonNow, concurrency: int) -> TenantsNow:
    workers = now.gauge("leveret_workers")
    return TenantsNow(
        fairness=now.gauge("leveret_fairness_index"),
        fairness_tenants=_whole(now.gauge("leveret_fairness_tenants")),
        slots=None if workers is None else concurrency * int(workers),
        slots_used=now.status.in_flight,
        borrowable=_whole(now.gauge("leveret_borrowable_deliveries")),
        rerouted=_whole(now.gauge("leveret_noisy_tenants")),
        in_lanes=now.status.waiting.get("lane"),
        in_spill=now.status.waiting.get("spill"),
        lines=lines,
        worker_detail="",
    )


def _unknown(lines: Sequence[TenantNow], detail: str) -> TenantsNow:
    return TenantsNow(
        fairness=None,
        fairness_tenants=None,
        slots=None,
        slots_used=None,
        borrowable=None,
        rerouted=None,
        in_lanes=None,
        in_spill=None,
        lines=lines,
        worker_detail=detail,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
