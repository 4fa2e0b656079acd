"""Show parked entries with their payload, purge them, and rebuild their index: from the queue itself.

Each of these takes the lock of the parked queue, as the commands of ``leveret parked`` do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final

from consumer.core.message.parked import ParkedEntry, entry_as_dict
from consumer.core.message.parked_filter import Filter
from consumer.core.operate.audited import parked_deed
from consumer.core.store.audit import Change
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.broker.look import QueueInUse
from consumer.edges.operate.parked.drain import ParkedPlace, drain
from consumer.edges.operate.parked.lock import Turn
from consumer.edges.operate.parked.queue import browse, purge
from consumer.edges.operate.parked.rebuild import Rebuilt, rebuild_index
from consumer.edges.process.system import FileArchive
from consumer.web.access.audited import audited
from consumer.web.access.guard import Caller
from consumer.web.context import WebContext
from consumer.web.services.parked import row, unknown
from consumer.web.shared.problems import Problem
from topology.names import Names

OTHERS_S: Final = 5.0  #: how long a request waits for other requests of this process


async def show(caller: Caller, entry_id: str) -> ParkedEntry:
    """Return one entry with its exact payload; it stays parked.

    Raises:
        Problem: 404: no such entry is parked; 409: a command has the entries in hand, and is named.
        BrokerUnavailable: the broker is away.
    """
    context = caller.context
    if context.store.records.parked.is_kept:
        await row(caller, entry_id)  # quick, and the queue is not searched for an entry of another tenant
    async with _in_hand(context) as place:
        connection = await connect(place.options, "api")
        try:
            async with aclosing(browse(connection, place.names, _turn("show"))) as entries:
                async for entry in entries:
                    if entry.id == entry_id and caller.sees(tenant_of(entry)):
                        return entry
        finally:
            await close_quietly(connection)
    raise unknown()


def tenant_of(entry: ParkedEntry) -> str | None:
    """Return the tenant of an entry, as the filters see it."""
    tenant = entry_as_dict(entry)["tenant"]
    return tenant if isinstance(tenant, str) else None


async def purge_entries(caller: Caller, chosen: Filter, *, confirm: bool) -> Sequence[ParkedEntry]:
    """Move the entries of a filter into the archive, and out of the queue; return them.

    Args:
        caller: Author of the change.
        chosen: The filter.
        confirm: The caller really means it.

    Raises:
        Problem: 409: *confirm* is missing, or a command has the entries in hand; 507: the disk refused one.
        BrokerUnavailable: the broker is away; an archived entry may still be parked.
    """
    context = caller.context
    if not confirm:
        count = (await context.store.records.parked.span(chosen)).entries
        remedy = 'repeat the request with "confirm": true'
        raise Problem(409, f"this purges {count} entries", field="confirm", remedy=remedy)
    archive = FileArchive(context.settings.home / "archive", context.clock, "purged")
    gone: list[ParkedEntry] = []
    try:
        async with _in_hand(context) as place, _purging(caller, chosen, gone):
            await drain(
                place,
                lambda connection, names: purge(connection, names, _turn("purge"), chosen, archive),
                gone.append,
            )
    except OSError as error:
        detail = f"the disk refuses the archive; {len(gone)} entries were purged, and the others stay parked"
        raise Problem(
            507, f"{detail}: {error.strerror or 'no reason is known'}", remedy="free space"
        ) from None
    return gone


@asynccontextmanager
async def _purging(caller: Caller, chosen: Filter, gone: Sequence[ParkedEntry]) -> AsyncIterator[None]:
    """Write the line of a purge, and the number of purged entries at its end."""
    async with audited(caller, parked_deed("purged", chosen)) as outcome:
        try:
            yield
        finally:
            outcome["entries"] = len(gone)


async def reindex(caller: Caller) -> Rebuilt:
    """Make the index of parked entries anew from the queue.

    Raises:
        Problem: 403: the caller sees one tenant only; 409: a command has the entries in hand, or the index is
            off.
        BrokerUnavailable: the broker is away.
        StoreUnavailable: the store cannot be written.
    """
    context = caller.context
    if caller.tenant is not None:
        raise Problem(403, "the index belongs to every tenant", remedy="use a token without a tenant")
    if not context.store.records.parked.is_kept:
        raise Problem(409, "the index of parked entries is off", remedy="set [store] parked_index_max")
    deed = Change(action="parked.reindexed", target="parked entries")
    async with _in_hand(context) as place, audited(caller, deed) as outcome:
        rebuilt = await rebuild_index(place, _turn("reindex"))
        outcome["entries"] = rebuilt.entries
    return rebuilt


@asynccontextmanager
async def _in_hand(context: WebContext) -> AsyncIterator[ParkedPlace]:
    """Let one request of this process at a time take the parked entries in hand.

    Raises:
        Problem: 409: another request, or another command, has them in hand.
        BrokerUnavailable: no broker is set.
    """
    options = (await context.broker.find()).options
    names = Names(context.settings.topology.prefix)
    try:
        async with asyncio.timeout(OTHERS_S):
            await context.parked_turn.acquire()
    except TimeoutError:
        raise _in_use("another request has the parked entries in hand") from None
    try:
        yield ParkedPlace(options=options, names=names, store=context.store)
    except QueueInUse as error:
        raise _in_use(str(error).partition("; ")[0]) from None
    finally:
        context.parked_turn.release()


def _turn(command: str) -> Turn:
    return Turn(command=f"leveret serve, parked {command}")


def _in_use(detail: str) -> Problem:
    return Problem(409, detail, remedy="try again when it has ended", headers={"Retry-After": "1"})
