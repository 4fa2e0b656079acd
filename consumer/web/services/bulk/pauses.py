"""List, add and lift the pauses of any scope that the caller may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.subscription.pauses import Pause, Scope
from consumer.edges.operate.pauses import (
    Chosen,
    PausesNow,
    change_pause,
    find_pause,
    inform_workers,
    list_pauses,
    release_lifted,
)
from consumer.web.access.guard import Caller
from consumer.web.shared.problems import Problem, faults_of


@dataclass(frozen=True, slots=True)
class Lifted:
    """The pauses after one was lifted, and the deliveries that are sent now."""

    now: PausesNow
    released: int
    warnings: Sequence[str]


async def listed(caller: Caller) -> PausesNow:
    """Return the pauses of what the caller may see.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    return await _seen(caller, await list_pauses(caller.context.store))


async def add(caller: Caller, chosen: Chosen) -> PausesNow:
    """Send nothing in a scope until its pause is lifted.

    Raises:
        Problem: 404: there is no such tenant or subscription; 403: the scope is all, and the token is bound.
        StoreUnavailable: the store cannot be written.
    """
    return await _change(caller, chosen, lift=False)


async def lift(caller: Caller, chosen: Chosen) -> Lifted:
    """Lift the pause of a scope, and send its waiting deliveries.

    Raises:
        Problem: 404, 403 as :func:`add`.
        StoreUnavailable: the store cannot be written.
    """
    now = await _change(caller, chosen, lift=True)
    if now.changed is None:
        return Lifted(now, 0, ())
    context = caller.context
    spec = context.settings.topology_spec()
    try:
        await inform_workers((await context.broker.find()).options, spec)
        released = await release_lifted(await context.broker.connection(), spec, now.changed)
    except (BrokerUnavailable, ConfigError) as error:
        cause = "the broker is away" if isinstance(error, BrokerUnavailable) else str(error)
        return Lifted(now, 0, [f"waiting deliveries are looked at again within a minute or so: {cause}"])
    return Lifted(now, released.count, released.unread)


async def _change(caller: Caller, chosen: Chosen, *, lift: bool) -> PausesNow:
    context = caller.context
    if chosen.scope is Scope.ALL and caller.tenant is not None:
        raise Problem(403, "the token is bound to one tenant", field="scope", remedy="pause that tenant")
    try:
        pause = await find_pause(context.store, chosen, lift=lift, now=context.clock.now())
    except ConfigError as error:
        raise Problem.of_faults(404, faults_of(error)) from None
    if not await _may_see(caller, pause):
        detail = f"there is no {chosen.scope.value} {chosen.name}"
        raise Problem(404, detail, remedy="see `leveret subscriptions list`")
    return await _seen(caller, await change_pause(context.store, pause, lift=lift, who=caller.who))


async def _may_see(caller: Caller, pause: Pause) -> bool:
    """Return whether the caller may see the scope; that of a deleted subscription belongs to no tenant."""
    if caller.tenant is None or pause.scope is not Scope.SUBSCRIPTION:
        return caller.sees(pause.name)
    return any(entry.id == pause.name for entry in await caller.context.store.entries(caller.tenant))


async def _seen(caller: Caller, now: PausesNow) -> PausesNow:
    if caller.tenant is None:
        return now
    ids = {entry.id for entry in await caller.context.store.entries(caller.tenant)}
    rows = [
        row
        for row in now.rows
        if (row["scope"] == "tenant" and row["name"] == caller.tenant)
        or (row["scope"] == "subscription" and row["name"] in ids)
    ]
    return PausesNow(rows, now.changed)
