"""Count the messages in each kind of our queues, for gauges and back-pressure.

It uses only AMQP, as the management API may be out of reach. It takes no message: even a look at the first
parked entry would put it behind those of earlier looks (seen on RabbitMQ 3.10.8).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from aio_pika.abc import AbstractConnection

from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from consumer.ports import QueueDepths

SIZES_EVERY_S = 10.0
PARKED = "parked"  #: label of the queue of parked entries

CountIndexed: TypeAlias = Callable[[], Awaitable[int | None]]
"""Returns the number of parked messages by the store's index; None while it is unknown."""


async def unknown() -> int | None:
    """Return None, as there is no index."""
    return None


class ParkedTotal:
    """Counts the parked entries, also those that a command has in hand.

    AMQP counts only ready messages. While the queue has a consumer, the index of the store knows more.
    Without an index the number from before that consumer is kept.
    """

    def __init__(self, count_indexed: CountIndexed) -> None:
        self._count_indexed = count_indexed
        self._last = 0  #: messages when the queue had no consumer

    async def of(self, ready: int, consumers: int) -> int:
        """Return the number of entries, for the counts that the broker gave."""
        indexed = await self._count_indexed()
        if not consumers:
            self._last = ready
            return ready
        return max(ready, self._last if indexed is None else indexed)


async def follow_sizes(
    connection: AbstractConnection,
    queues: Sequence[tuple[str, str]],
    listeners: Sequence[QueueDepths],
    parked: ParkedTotal,
) -> None:
    """Count again and again, until cancelled.

    Args:
        connection: Connection on which each count opens a channel, as a missing queue closes the channel.
        queues: Name of each queue, and label of its gauge.
        listeners: Receive the counts.
        parked: Counts the entries of the parked queue.
    """
    while True:
        try:
            channel = await open_channel(connection, confirms=False)
            totals = dict.fromkeys((label for _, label in queues), 0)
            for queue, label in queues:
                found = await channel.queue_declare(queue, passive=True)
                ready = found.message_count or 0
                is_parked = label == PARKED
                totals[label] += await parked.of(ready, found.consumer_count or 0) if is_parked else ready
            await channel.close()
        except CONNECTION_ERRORS:
            totals = {}
        now = time.time()
        for listener in listeners:
            listener.queues_sized(totals, now)
        await asyncio.sleep(SIZES_EVERY_S)
