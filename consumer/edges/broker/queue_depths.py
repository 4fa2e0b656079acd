"""Count the messages in each kind of our queues, for gauges and back-pressure.

It uses only AMQP, as the management API may be out of reach. It takes no message: even a look at the first
parked entry would put it behind those of earlier looks (seen on RabbitMQ 3.10.8).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from aio_pika.abc import AbstractConnection

from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from consumer.ports import QueueDepths

SIZES_EVERY_S = 10.0


async def follow_sizes(
    connection: AbstractConnection, queues: Sequence[tuple[str, str]], listeners: Sequence[QueueDepths]
) -> None:
    """Count again and again, until cancelled.

    Args:
        connection: Connection on which each count opens a channel, as a missing queue closes the channel.
        queues: Name of each queue, and label of its gauge.
        listeners: Receive the counts.
    """
    while True:
        try:
            channel = await open_channel(connection, confirms=False)
            totals = dict.fromkeys((label for _, label in queues), 0)
            for queue, label in queues:
                found = await channel.queue_declare(queue, passive=True)
                totals[label] += found.message_count or 0
            await channel.close()
        except CONNECTION_ERRORS:
            totals = {}
        now = time.time()
        for listener in listeners:
            listener.queues_sized(totals, now)
        await asyncio.sleep(SIZES_EVERY_S)
