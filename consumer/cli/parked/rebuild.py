"""Make the index of parked entries anew from the queue.

Data flow: ids in the index -> one pass over the queue, under its lock -> rows into the store; ids that the
pass did not meet leave the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from consumer.cli.shared.interrupt import run_to_the_end
from consumer.core.errors import ConfigError
from consumer.core.message.records import ParkedRow
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.parked import Unreadable, survey
from consumer.edges.operate.parked_lock import Turn
from consumer.edges.store import SqlStore, opened_store
from consumer.edges.store.rows.records import Batch
from consumer.settings import Settings
from topology.names import Names

ROWS_AT_ONCE = 1_000  #: rows in one transaction


def rebuild_index(settings: Settings, turn: Turn) -> Mapping[str, object]:
    """Rebuild the index; return counts of the entries, and of the rows that were added and removed.

    Raises:
        ConfigError: the index is off.
        QueueInUse: another command has the entries in hand.
        BrokerUnavailable: the broker is away, or the queue does not exist.
        StoreUnavailable: the store cannot be written.
    """
    if not settings.store.parked_index_max:
        raise ConfigError("the index of parked entries is off ([store] parked_index_max = 0)")

    async def run() -> Mapping[str, object]:
        connection = await connect(find_broker(settings).options, "parked")
        try:
            async with opened_store(settings) as store:
                before = {row.id: row.parked_at for row in await store.parked_index()}
                async with survey(connection, Names(settings.topology.prefix), turn) as found:
                    return await _written(store, before, found.entries, found.unreadable)
        finally:
            await close_quietly(connection)

    return run_to_the_end(run())


async def _written(
    store: SqlStore,
    before: Mapping[str, float],
    entries: Sequence[ParkedRow],
    unreadable: Sequence[Unreadable],
) -> Mapping[str, object]:
    copies = Counter(row.id for row in entries)
    rows = {row.id: replace(row, messages=copies[row.id]) for row in entries}
    ids = list(rows)
    for start in range(0, len(ids), ROWS_AT_ONCE):
        some = ids[start : start + ROWS_AT_ONCE]
        await store.records.write(Batch(parked={each: rows[each] for each in some}))
    gone = {entry_id: at for entry_id, at in before.items() if entry_id not in rows}
    await store.forget_parked(gone)
    return {
        "entries": len(rows),
        "added": len(rows.keys() - before.keys()),
        "removed": len(gone),
        "repeated_messages": len(entries) - len(rows),
        "unreadable_messages": len(unreadable),
    }
