"""Count the deliveries that the removal of subscriptions would destroy; doubt the wrong broker.

Data flow: subscriptions to remove -> :func:`count_owed` over AMQP, record of the store on the broker -> Owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from consumer.core.changes.merge import StoredEntry
from consumer.core.changes.owed import Owed
from consumer.core.errors import BrokerUnavailable, LeveretError
from consumer.core.store.lineage import Generation
from consumer.edges.broker.connection.connect import AmqpOptions, close_quietly, connect
from consumer.edges.broker.store_record import recording
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.owed import count_owed
from consumer.edges.private_broker import ports_in
from consumer.edges.store import SqlStore
from consumer.settings import Settings

AWAY = "the broker is away, so waiting and parked deliveries cannot be counted"


async def owed_by(settings: Settings, store: SqlStore, removed: Sequence[StoredEntry]) -> Owed:
    """Count the deliveries that would be lost with *removed*; without the broker they stay uncounted."""
    if not removed:
        return Owed()
    try:
        return await _count(settings, store, removed)
    except (LeveretError, OSError) as error:
        return Owed(uncounted=[f"{AWAY}: {error}"])


async def _count(settings: Settings, store: SqlStore, removed: Sequence[StoredEntry]) -> Owed:
    if not (settings.amqp_urls() or ports_in(settings.home)):
        return Owed(uncounted=await _elsewhere(settings, store, removed, "no broker is set here"))
    options = (await asyncio.to_thread(find_broker, settings)).options
    connection = await connect(options, "removal")
    try:
        owed = await count_owed(connection, settings.topology_spec(), [entry.id for entry in removed])
    finally:
        await close_quietly(connection)
    return replace(owed, uncounted=[*owed.uncounted, *await _doubts(settings, store, removed, options)])


async def _doubts(
    settings: Settings, store: SqlStore, removed: Sequence[StoredEntry], options: AmqpOptions
) -> Sequence[str]:
    """Return the reasons why this broker may not be the one that holds the store's deliveries."""
    recorded = await _recorded(settings, options)
    if recorded is None or not recorded.number:
        return await _elsewhere(
            settings, store, removed, "the broker that is set here has no record of this store"
        )
    own = await store.read_lineage()
    if recorded.store == own.generation.store:
        return ()
    return [
        "the messages of the broker that is set here were made with another store; see `leveret store show`"
    ]


async def _recorded(settings: Settings, options: AmqpOptions) -> Generation | None:
    """Return the generation that the broker remembers; None without a readable record."""
    try:
        async with recording(options, settings.topology_spec().names, ()) as record:
            return await record.settle(lambda _recorded, _messages: None)
    except BrokerUnavailable:
        return None


async def _elsewhere(
    settings: Settings, store: SqlStore, removed: Sequence[StoredEntry], why: str
) -> Sequence[str]:
    """Return *why* as a doubt if a daemon with another broker uses the store; otherwise nothing is owed."""
    ids = {entry.id for entry in removed}
    served = {state.subscription_id for state in await store.endpoint_states()}
    for row in await store.parked_index():
        served.update(row.subscription_ids)
    if settings.postgres_url() is None and not ids & served:
        return ()
    return [f"{why}; set LEVERET_AMQP_URL to the broker of the daemon"]
