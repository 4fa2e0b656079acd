"""Sum up the last hour and the last day, of everything or of one tenant.

Data flow: sums of the history + counts of the store -> :class:`HourValues`, :class:`DayValues`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consumer.core.history.activity import HOUR_S, MINUTE_S, Figures, ParkedFlow
from consumer.web.context import WebContext


@dataclass(frozen=True, slots=True, kw_only=True)
class HourValues:
    """The last hour: sums, and series of 60 minutes, the oldest first. None: unknown or nothing happened."""

    success: Sequence[float | None]  #: ratios
    latency: Sequence[float | None]  #: 95th percentiles in seconds
    deliveries: Sequence[float | None]  #: per second
    parked: Sequence[float | None]  #: entries at the end of each minute; purged ones are not known
    success_ratio: float | None
    p95_s: float | None
    deliveries_per_s: float | None  #: of the last whole minute
    attempts: int
    waiting: int  #: deliveries that wait for an attempt
    endpoints: int
    parked_count: int
    parked_added: int
    parked_left: int  #: entries that were sent again
    parked_top_reason: str  #: the most frequent reason among the added entries; empty without one


@dataclass(frozen=True, slots=True, kw_only=True)
class DayValues:
    """The last 24 hours of one tenant."""

    delivered: int
    success_ratio: float | None
    parked: int  #: entries of the parked queue


async def hour(context: WebContext, tenant: str | None = None) -> HourValues:
    """Return the last hour of everything, or of one tenant.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    now, activity = context.clock.now(), await context.activity.current()
    ids = await context.lookup.known_ids(tenant)
    reasons = await context.lookup.parked_reasons(now - HOUR_S, tenant)
    figures = activity.figures(now, None if tenant is None else ids)
    flow = activity.parked_flow(now, None if tenant is None else ids)
    known = context.settings.history.keep == "all"
    rates = _rates(figures, known=known)
    return HourValues(
        success=[each.success_ratio if each and known else None for each in figures.minutes],
        latency=[each.p95_s if each and known else None for each in figures.minutes],
        deliveries=rates,
        parked=_parked(flow, reasons.count),
        success_ratio=figures.total.success_ratio if known else None,
        p95_s=figures.total.p95_s if known else None,
        deliveries_per_s=rates[-2],
        attempts=figures.total.attempts,
        waiting=sum(map(activity.waiting, ids)),
        endpoints=len(ids),
        parked_count=reasons.count,
        parked_added=sum(each.added for each in flow),
        parked_left=sum(each.left for each in flow),
        parked_top_reason=next(iter(reasons.recent), ""),
    )


async def day(context: WebContext, tenant: str) -> DayValues:
    """Return the last 24 hours of one tenant.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    now, activity = context.clock.now(), await context.activity.current()
    rows = await context.lookup.endpoints(tenant)
    total = activity.day(now, {row.id for row in rows})
    known = context.settings.history.keep == "all"
    return DayValues(
        delivered=total.delivered if known else 0,
        success_ratio=total.success_ratio if known else None,
        parked=sum(row.parked for row in rows),
    )


def _rates(figures: Figures, *, known: bool) -> Sequence[float | None]:
    """Return deliveries per second by minute; a minute without attempts has none."""
    if not known:
        return [None] * len(figures.minutes)
    return [round((each.delivered if each else 0) / MINUTE_S, 3) for each in figures.minutes]


def _parked(flow: Sequence[ParkedFlow], count: int) -> Sequence[float | None]:
    """Return the size of the parked queue by minute, backwards from its present size."""
    sizes: list[float | None] = []
    for each in reversed(flow):
        sizes.append(float(max(count, 0)))
        count += each.left - each.added
    return sizes[::-1]
