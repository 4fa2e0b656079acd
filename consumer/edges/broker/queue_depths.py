"""Look at our queues for the gauges: how many messages stand in each kind.

Over AMQP alone: the management API may be out of reach. No message is taken: even a look at the first parked
entry would put it behind those that were looked at before (seen on RabbitMQ 3.10.8).
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
    """Look again and again, until cancelled.

    Args:
        connection: Of which each look opens a channel: one that asks for a missing queue is closed for it.
        queues: Name of each queue, and label of its gauge.
        listeners: Hear what each look found.
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
