"""List waiting deliveries, send them at once, or cancel them; of the tenants that the caller may see.

Data flow: values of a request -> Wanted -> one pass over the rungs -> rows; audit log.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from consumer.core.changes.steps import Address, find
from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.message.waiting import Wanted
from consumer.core.operate.audited import waiting_deed
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.control import freeing, send_to_workers
from consumer.edges.operate.waiting import browse, cancel, kick
from consumer.edges.operate.waiting_pass import Met, WaitingPass
from consumer.edges.process.system import FileArchive
from consumer.web.access.audited import audited
from consumer.web.access.guard import Caller
from consumer.web.shared.problems import Problem, faults_of


@dataclass(frozen=True, slots=True)
class PassResult:
    """The deliveries that a pass met."""

    rows: Sequence[Mapping[str, object]]
    warnings: Sequence[str]
    broken: str | None  #: why it ended early


async def wanted_of(caller: Caller, wanted: Wanted) -> Wanted:
    """Return *wanted* with the id of its subscription, for the only tenant that the caller may see.

    Raises:
        Problem: 404: another tenant, or no such subscription.
        StoreUnavailable: the store cannot be read.
    """
    if wanted.tenant is not None and not caller.sees(wanted.tenant):
        raise Problem(404, "there is no such tenant", field="tenant")
    which = wanted.subscription
    if which is not None and not which.startswith("sub_"):
        try:
            which = find(await caller.context.store.entries(caller.tenant), Address(text=which)).id
        except ConfigError as error:
            raise Problem.of_faults(404, faults_of(error)) from None
    return Wanted(tenant=caller.tenant or wanted.tenant, subscription=which, event=wanted.event)


async def listed(caller: Caller, wanted: Wanted, limit: int) -> PassResult:
    """Return waiting deliveries, the longest waits first; nothing changes but delivery counts.

    Raises:
        BrokerUnavailable: the broker is away.
    """
    return await _run(caller, browse, wanted, limit)


async def kick_all(caller: Caller, wanted: Wanted) -> PassResult:
    """Send waiting deliveries at once. An open breaker, a pause and a Retry-After still hold them.

    Raises:
        BrokerUnavailable: the broker is away; nothing was changed.
        StoreUnavailable: the audit log cannot be written, and nothing was changed.
    """
    async with audited(caller, waiting_deed("kicked", wanted)) as outcome:
        warnings = await _free(caller, wanted)
        done = await _run(caller, kick, wanted, sys.maxsize)
        outcome["deliveries"] = len(done.rows)
    return PassResult(done.rows, [*warnings, *done.warnings], done.broken)


async def cancel_all(caller: Caller, wanted: Wanted) -> PassResult:
    """Archive waiting deliveries, bodies included, and cancel them.

    Raises:
        BrokerUnavailable: the broker is away; nothing was changed.
        StoreUnavailable: the audit log cannot be written, and nothing was changed.
    """
    archive = FileArchive(caller.context.settings.home / "archive", caller.context.clock, "cancelled")
    async with audited(caller, waiting_deed("cancelled", wanted)) as outcome:
        done = await _run(caller, partial(cancel, archive=archive), wanted, sys.maxsize)
        outcome["deliveries"] = len(done.rows)
    return PassResult(done.rows, [*done.warnings, *await _free(caller, wanted)], done.broken)


async def _run(caller: Caller, step: WaitingPass, wanted: Wanted, limit: int) -> PassResult:
    context, met, broken = caller.context, Met(limit), None
    connection = await connect((await context.broker.find()).options, "api")
    try:
        await met.run(connection, context.settings.topology_spec(), step, wanted)
    except BrokerUnavailable:
        broken = "the broker went away; the others wait on"
    except OSError as error:
        where = context.settings.home / "archive"
        broken = f"{where}: {error.strerror or 'the disk refuses it'}; unarchived deliveries wait on"
    finally:
        await close_quietly(connection)
    return PassResult(met.rows, met.unread, broken)


async def _free(caller: Caller, wanted: Wanted) -> Sequence[str]:
    """Make the workers cancel the reservations of the deliveries; return the problem if they do not know."""
    message = freeing(wanted)
    if message is None:
        return ()
    context = caller.context
    options, names = (await context.broker.find()).options, context.settings.topology_spec().names
    try:
        await send_to_workers(options, names, message)
    except BrokerUnavailable:
        return ["the workers could not be notified, and may send new deliveries later than possible"]
    return ()
