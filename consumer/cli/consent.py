"""Ask before subscriptions go whose deliveries still wait or are parked.

Data flow: subscriptions that would go -> edges.owed counts over AMQP -> each named on stderr -> ``--yes``, or
the question on a terminal; else nothing changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import typer

from consumer.cli.link import find_broker
from consumer.cli.output import demand_terminal, warn
from consumer.core.errors import LeveretError
from consumer.core.owed import Owed, lines, total
from consumer.core.subscription_set import Merge, StoredEntry
from consumer.edges.broker.connect import close_quietly, connect
from consumer.edges.owed import count_owed
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
        return await _never_served(settings, removed)
    connection = await connect(find_broker(settings).options, "removal")
    try:
        return await count_owed(connection, settings.topology_spec(), [entry.id for entry in removed])
    finally:
        await close_quietly(connection)


async def _never_served(settings: Settings, removed: Sequence[StoredEntry]) -> Owed:
    """Nothing is owed without a broker, unless the store is that of a daemon whose broker is not set here."""
    ids = {entry.id for entry in removed}
    async with opened_store(settings) as store:
        served = {state.subscription_id for state in await store.endpoint_states()}
        for row in await store.parked_index():
            served.update(row.subscription_ids)
    if settings.postgres_url() is None and not ids & served:
        return Owed()
    return Owed(uncounted=["no broker is set here; set LEVERET_AMQP_URL as the daemon has it"])
