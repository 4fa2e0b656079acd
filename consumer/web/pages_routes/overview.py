"""The overview: everything that is wrong now, then the last hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from consumer.web.access.visitors import AnyVisitor
from consumer.web.pages import urls
from consumer.web.pages.troubles import Facts, troubles
from consumer.web.pages.views.overview import Hour, OverviewPage, ParkedCounts, Pressure
from consumer.web.pages.views.parts import EndpointLine, Series
from consumer.web.pages_routes.parts.answers import page_answer, see_other, shell_of
from consumer.web.pages_routes.parts.lines import endpoint_line
from consumer.web.services import daemon, endpoints
from consumer.web.services import overview as service

router = APIRouter(include_in_schema=False)

REFRESH_S: Final = 5
WORST: Final = 10  #: endpoints that are listed
_AT_REST: Final = ("well", "paused", "disabled")
"""States that no trouble belongs to."""


@router.get(urls.OVERVIEW)
async def overview_page(visitor: AnyVisitor) -> Response:
    """Show everything that is wrong now; a customer is led to the customer's view."""
    if visitor.caller.tenant is not None:
        return see_other(urls.CUSTOMER)
    context = visitor.context
    listed = await endpoints.listed(context, endpoints.EndpointFilter())
    ill = [each for each in listed if each.condition.state not in _AT_REST]
    first = [endpoint_line(each) for each in await endpoints.completed(context, ill[:WORST])]
    lines = [*first, *map(endpoint_line, ill[WORST:])]
    hour = await service.hour(context)
    health = await daemon.health(visitor.caller)
    parked = ParkedCounts(
        count=hour.parked_count,
        added_hour=hour.parked_added,
        left_hour=hour.parked_left,
        top_reason=hour.parked_top_reason,
    )
    return page_answer(
        OverviewPage(
            shell=shell_of(visitor, refresh_s=REFRESH_S),
            troubles=troubles(facts(context.clock.now(), lines, parked, health)),
            hour=_hour(hour, health),
            worst=lines[:WORST],
            endpoints=hour.endpoints,
            parked=parked,
            workers=_workers(health),
        )
    )


def facts(
    now: float, lines: Sequence[EndpointLine], parked: ParkedCounts, health: daemon.DaemonHealth
) -> Facts:
    """Return the facts in which troubles are found.

    Args:
        now: Unix seconds.
        lines: Endpoints that are not well, the worst first.
        parked: The parked queue.
        health: Store, broker and worker.
    """
    worker = health.worker
    away = not health.broker.is_up
    if worker is None:
        return Facts(now=now, endpoints=lines, parked=parked, unreached=health.unreached, broker_is_away=away)
    is_ill = not worker.ready and not worker.is_pressed
    return Facts(
        now=now,
        endpoints=lines,
        broker_is_away=away,
        rerouted_count=worker.rerouted_tenants,
        parked=parked,
        pressure=Pressure(reason="; ".join(worker.reasons)) if worker.is_pressed else None,
        workers=1 if worker.workers is None else max(1, worker.workers),
        not_ready=worker.reasons or ["it gives no reason"] if is_ill else (),
        oldest_due_s=worker.oldest_delivery_s,
    )


def _workers(health: daemon.DaemonHealth) -> int | None:
    """Return the number of live workers: as a worker knows it, else as the broker does."""
    if health.worker is not None:
        return health.worker.workers
    return None if health.unreached is None else health.unreached.consuming


def _hour(hour: service.HourValues, health: daemon.DaemonHealth) -> Hour:
    return Hour(
        success=Series(values=hour.success, high=1.0),
        latency=Series(values=hour.latency, low=0.0),
        deliveries=Series(values=hour.deliveries, low=0.0),
        parked=Series(values=hour.parked, low=0.0),
        success_ratio=hour.success_ratio,
        p95_s=hour.p95_s,
        deliveries_per_s=hour.deliveries_per_s,
        waiting=hour.waiting,
        oldest_due_s=None if health.worker is None else health.worker.oldest_delivery_s,
    )
