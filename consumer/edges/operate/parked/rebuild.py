"""Make the index of parked entries anew from the queue.

Data flow: ids in the index -> one pass over the queue, under its lock -> rows into the store; ids that the
pass did not meet leave the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from consumer.core.message.records import ParkedRow
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.parked.drain import ParkedPlace
from consumer.edges.operate.parked.lock import Turn
from consumer.edges.operate.parked.queue import Unreadable, survey
from consumer.edges.store import SqlStore
from consumer.edges.store.rows.records import Batch

ROWS_AT_ONCE = 1_000  #: rows in one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The result of a rebuild."""

    entries: int
    added: int  #: rows that the index did not have
    removed: int  #: rows of entries that are no longer parked
    repeated_messages: int  #: further messages of the same entries
    unreadable_messages: int


async def rebuild_index(place: ParkedPlace, turn: Turn) -> Rebuilt:
    """Rebuild the index; all entries stay parked.

    Raises:
        QueueInUse: another command has the entries in hand.
        BrokerUnavailable: the broker is away, or the queue does not exist.
        StoreUnavailable: the store cannot be written.
    """
    connection = await connect(place.options, "parked")
    try:
        before = {row.id: row.parked_at for row in await place.store.parked_index()}
        async with survey(connection, place.names, turn) as found:
            return await _written(place.store, before, found.entries, found.unreadable)
    finally:
        await close_quietly(connection)


async def _written(
    store: SqlStore,
    before: Mapping[str, float],
    entries: Sequence[ParkedRow],
    unreadable: Sequence[Unreadable],
) -> Rebuilt:
    copies = Counter(row.id for row in entries)
    rows = {row.id: replace(row, messages=copies[row.id]) for row in entries}
    ids = list(rows)
    for start in range(0, len(ids), ROWS_AT_ONCE):
        some = ids[start : start + ROWS_AT_ONCE]
        await store.records.write(Batch(parked={each: rows[each] for each in some}))
    gone = {entry_id: at for entry_id, at in before.items() if entry_id not in rows}
    await store.forget_parked(gone)
    return Rebuilt(
        entries=len(rows),
        added=len(rows.keys() - before.keys()),
        removed=len(gone),
        repeated_messages=len(entries) - len(rows),
        unreadable_messages=len(unreadable),
    )
