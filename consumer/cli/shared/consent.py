"""Ask before subscriptions go whose deliveries still wait or are parked.

Data flow: subscriptions that would go -> edges.owed counts over AMQP -> each named on stderr -> ``--yes``, or
the question on a terminal; else nothing changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import typer

from consumer.cli.shared.link import find_broker
from consumer.cli.shared.output import demand_terminal, warn
from consumer.core.changes.merge import Merge, StoredEntry
from consumer.core.changes.owed import Owed, lines, total
from consumer.core.errors import BrokerUnavailable, LeveretError
from consumer.core.store.lineage import Generation
from consumer.edges.broker.connection.connect import AmqpOptions, close_quietly, connect
from consumer.edges.broker.store_record import recording
from consumer.edges.operate.owed import count_owed
from consumer.edges.private_broker import ports_in
from consumer.edges.store import opened_store
from consumer.settings import Settings

AWAY = "the broker is away, so what waits and what is parked is unknown"


def owed_by(settings: Settings, removed: Sequence[StoredEntry]) -> Owed:
    """Return what would be lost with *removed*; a broker that is away makes that unknown."""
    if not removed:
        return Owed()
    try:
        return asyncio.run(_count(settings, removed))
    except (LeveretError, OSError) as error:
        return Owed(uncounted=[f"{AWAY}: {error}"])


def agreed(owed: Owed, merged: Merge, *, yes: bool) -> bool:
    """Name what would be lost, and ask; where nothing would be, or with *yes*, nobody is asked.

    Raises:
        BadParameter: there is nobody to ask.
    """
    if not owed:
        return True
    for line in lines(owed, merged.removed, merged.added):
        warn(line)
    if yes:
        return True
    demand_terminal(f"{total(owed)} would be lost; ")
    count = len(merged.removed)
    return typer.confirm(f"Remove {count} {'subscription' if count == 1 else 'subscriptions'}?", err=True)


async def _count(settings: Settings, removed: Sequence[StoredEntry]) -> Owed:
    if not (settings.amqp_urls() or ports_in(settings.home)):
        return Owed(uncounted=await _elsewhere(settings, removed, "no broker is set here"))
    options = find_broker(settings).options
    connection = await connect(options, "removal")
    try:
        owed = await count_owed(connection, settings.topology_spec(), [entry.id for entry in removed])
    finally:
        await close_quietly(connection)
    return replace(owed, uncounted=[*owed.uncounted, *await _doubts(settings, removed, options)])


async def _doubts(settings: Settings, removed: Sequence[StoredEntry], options: AmqpOptions) -> Sequence[str]:
    """Say why the broker that is set here may not be the one that the store's deliveries wait on."""
    recorded = await _recorded(settings, options)
    if recorded is None or not recorded.number:
        return await _elsewhere(settings, removed, "the broker that is set here has no record of this store")
    async with opened_store(settings) as store:
        own = await store.read_lineage()
    if recorded.store == own.generation.store:
        return ()
    return [
        "the messages of the broker that is set here were made with another store; see `leveret store show`"
    ]


async def _recorded(settings: Settings, options: AmqpOptions) -> Generation | None:
    """Return the generation that the broker remembers; None: there is none, or it cannot be read."""
    try:
        async with recording(options, settings.topology_spec().names, ()) as record:
            return await record.settle(lambda _recorded, _messages: None)
    except BrokerUnavailable:
        return None


async def _elsewhere(settings: Settings, removed: Sequence[StoredEntry], why: str) -> Sequence[str]:
    """Nothing is owed without the right broker, unless the store is that of a daemon with another one."""
    ids = {entry.id for entry in removed}
    async with opened_store(settings) as store:
        served = {state.subscription_id for state in await store.endpoint_states()}
        for row in await store.parked_index():
            served.update(row.subscription_ids)
    if settings.postgres_url() is None and not ids & served:
        return ()
    return [f"{why}; set LEVERET_AMQP_URL as the daemon has it"]
