"""``/v1/breakers``, ``/v1/pauses`` and ``/v1/waiting``: what holds deliveries of any tenant."""

from __future__ import annotations

import sys
from typing import Annotated

from fastapi import APIRouter, Query

from consumer.core.message.waiting import Wanted
from consumer.core.subscription.pauses import Scope
from consumer.edges.operate.breakers import breaker_rows
from consumer.edges.operate.pauses import Chosen, PausesNow
from consumer.web.access.guard import Operator, Reader
from consumer.web.routes.bulk.models import (
    BreakerRow,
    BreakerRows,
    KickIn,
    LiftedPauses,
    PauseIn,
    PauseRow,
    Pauses,
    WaitingDeliveries,
    WaitingDelivery,
    WaitingIn,
)
from consumer.web.routes.filters import Subscription, Tenant
from consumer.web.services.bulk import pauses, waiting
from consumer.web.services.bulk.waiting import PassResult
from consumer.web.shared.problems import Problem

router = APIRouter(prefix="/v1", tags=["holds"])


@router.get("/breakers")
async def list_breakers(caller: Reader) -> BreakerRows:
    """List endpoints whose breaker is not closed, that asked for a rest, or that failed for ten minutes."""
    context = caller.context
    rows = await breaker_rows(context.store, context.clock.now(), caller.tenant)
    return BreakerRows(items=[BreakerRow.model_validate(row) for row in rows])


@router.get("/pauses")
async def list_all_pauses(caller: Reader) -> Pauses:
    """List the pauses of everything, of tenants and of subscriptions, the oldest first."""
    return Pauses.model_validate(_pauses(await pauses.listed(caller)))


@router.post("/pauses")
async def pause_scope(what: PauseIn, caller: Operator) -> Pauses:
    """Send nothing in a scope until the pause is lifted; deliveries wait and lose no attempt."""
    return Pauses.model_validate(_pauses(await pauses.add(caller, _chosen(what))))


@router.post("/pauses/lift")
async def lift_pause(what: PauseIn, caller: Operator) -> LiftedPauses:
    """Lift the pause of a scope, and send its waiting deliveries at once."""
    done = await pauses.lift(caller, _chosen(what))
    more = {"released": done.released, "warnings": list(done.warnings)}
    return LiftedPauses.model_validate(_pauses(done.now) | more)


@router.get("/waiting")
async def list_waiting(
    caller: Reader,
    tenant: Tenant = None,
    subscription: Subscription = None,
    event: Annotated[str | None, Query(max_length=512, description="Only of the event with this id.")] = None,
    limit: Annotated[
        int | None, Query(ge=1, le=1_000_000, description="Most deliveries; absent: all.")
    ] = None,
) -> WaitingDeliveries:
    """List the deliveries on the ladder, the longest waits first, without those in a worker's hands."""
    wanted = await waiting.wanted_of(
        caller, _wanted(WaitingIn(tenant=tenant, subscription=subscription, event=event))
    )
    return _deliveries(await waiting.listed(caller, wanted, sys.maxsize if limit is None else limit))


@router.post("/waiting/kick")
async def kick_waiting(what: KickIn, caller: Operator) -> WaitingDeliveries:
    """Send waiting deliveries at once. An open breaker, a pause and a Retry-After still hold them."""
    if _wanted(what) == Wanted() and not what.all:
        raise _no_filter()
    return _deliveries(await waiting.kick_all(caller, await waiting.wanted_of(caller, _wanted(what))))


@router.post("/waiting/cancel")
async def cancel_waiting(what: WaitingIn, caller: Operator) -> WaitingDeliveries:
    """Cancel waiting deliveries; each is written to the archive first, body included."""
    if _wanted(what) == Wanted():
        raise _no_filter()
    return _deliveries(await waiting.cancel_all(caller, await waiting.wanted_of(caller, _wanted(what))))


def _no_filter() -> Problem:
    remedy = "give tenant, subscription or event"
    return Problem(422, "no deliveries are chosen", field="tenant", remedy=remedy)


def _wanted(what: WaitingIn) -> Wanted:
    return Wanted(
        tenant=what.tenant or None, subscription=what.subscription or None, event=what.event or None
    )


def _deliveries(done: PassResult) -> WaitingDeliveries:
    items = [WaitingDelivery.model_validate(row) for row in done.rows]
    return WaitingDeliveries(items=items, warnings=list(done.warnings), broken=done.broken)


def _chosen(what: PauseIn) -> Chosen:
    if (what.scope == "all") != (not what.name):
        raise Problem(422, "a scope has a name, unless it is all", field="name", remedy="name it")
    return Chosen(Scope(what.scope), what.name)


def _pauses(now: PausesNow) -> dict[str, object]:
    return {"items": [PauseRow.model_validate(row) for row in now.rows], "changed": now.changed is not None}
