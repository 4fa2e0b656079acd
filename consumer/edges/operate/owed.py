"""Count the deliveries of some subscriptions on the ladder and in the parked queue.

Data flow: sizes of our queues -> a pass over the rungs and over the parked queue, unless empty -> Owed.
A pass changes nothing but delivery counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import ChannelNotFoundEntity

from consumer.core.changes.owed import Owed
from consumer.core.errors import BrokerUnavailable
from consumer.core.message.waiting import Wanted
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.operate import waiting
from consumer.edges.operate.parked import queue as parked
from consumer.edges.operate.parked.lock import Turn
from topology.plan import TopologySpec, sized_queues

WAITING, PARKED = "wait", "parked"
TURN_S = 30.0  #: longest wait for a command that has the parked entries in hand
DUE = ("due", "replay", "spill", "suspect", "stray")
"""Kinds of queues that are counted by size only: reading them would look like a worker's death."""


async def count_owed(connection: AbstractConnection, spec: TopologySpec, ids: Collection[str]) -> Owed:
    """Count the broker's deliveries for the subscriptions *ids*, without those in a worker's hands.

    Args:
        connection: Connection to the broker.
        spec: Names and number of our queues. A missing queue counts as empty.
        ids: Ids of the subscriptions.

    Raises:
        BrokerUnavailable: the broker is away, or a queue cannot be read.
    """
    sizes = await _sizes(connection, spec)
    on_rungs: Counter[str] = Counter()
    uncounted: list[str] = []
    if sizes[WAITING]:
        await _count_waiting(connection, spec, on_rungs, uncounted)
    in_parked: Counter[str] = Counter()
    if sizes[PARKED]:
        await _count_parked(connection, spec, in_parked, uncounted)
    due = sum(sizes[kind] for kind in DUE)
    if due:
        uncounted.append(
            f"{due} messages are due now, for unknown subscriptions; try again once they are sent"
        )
    return Owed(
        waiting={each: on_rungs[each] for each in ids},
        parked={each: in_parked[each] for each in ids},
        uncounted=uncounted,
    )


async def _count_waiting(
    connection: AbstractConnection, spec: TopologySpec, found: Counter[str], uncounted: list[str]
) -> None:
    queues = waiting.WaitQueues(spec.names, spec.ladder)
    seen: set[tuple[str, str]] = set()  # a message that moves down a rung meanwhile is met again
    async for one in waiting.browse(connection, queues, Wanted()):
        if isinstance(one, waiting.Unread):
            uncounted.append(f"{one.count} messages of {one.queue}: {one.why}")
            continue
        seen.update((target, one.message.event.id) for target in one.message.targets)
    found.update(target for target, _ in seen)


async def _count_parked(
    connection: AbstractConnection, spec: TopologySpec, found: Counter[str], uncounted: list[str]
) -> None:
    unreadable: list[parked.Unreadable] = []
    turn = Turn(command="leveret subscriptions", wait_s=TURN_S)
    async for entry in parked.browse(connection, spec.names, turn, unreadable):
        if entry.delivery is not None:
            found.update(entry.delivery.targets)
    if unreadable:
        uncounted.append(f"{len(unreadable)} messages of {spec.names.parked}: {unreadable[0].why}")


async def _sizes(connection: AbstractConnection, spec: TopologySpec) -> Counter[str]:
    """Return the number of ready messages by kind of queue."""
    sizes: Counter[str] = Counter()
    try:
        channel = await open_channel(connection, confirms=False)
        for queue, kind in sized_queues(spec):
            try:
                sizes[kind] += (await channel.queue_declare(queue, passive=True)).message_count or 0
            except ChannelNotFoundEntity:  # which closes the channel
                channel = await open_channel(connection, confirms=False)
        await channel.close()
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"our queues: {error or type(error).__name__}") from None
    return sizes
