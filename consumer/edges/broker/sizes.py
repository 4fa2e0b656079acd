"""Look at our queues for the gauges: the messages of each kind, and the age of the oldest parked entry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from pamqp.commands import Basic

from consumer.core.parked import parked_for_s
from consumer.edges.broker.connect import CONNECTION_ERRORS, open_channel
from consumer.edges.broker.windows import raw_message
from consumer.flow.observe import Observer

SIZES_EVERY_S = 10.0
OLDEST_EVERY_S = 60.0
"""How often the oldest entry is looked at. Each look costs one of the million returns that parked allows."""

PARKED = "parked"  #: label of the queue whose oldest message is looked at


class QueueSizes:
    """Reads the sizes over AMQP alone; the management API may be out of reach."""

    def __init__(self, queues: Sequence[tuple[str, str]], observe: Observer) -> None:
        """Bind to *queues*: name and label of each."""
        self._queues = queues
        self._observe = observe
        self._parked_before = 0
        self._oldest_at: float | None = None  #: Unix seconds at which the oldest entry was parked
        self._looked_at = 0.0  #: monotonic seconds of the last look at it

    async def follow(self, connection: AbstractConnection) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                channel = await open_channel(connection, confirms=False)
                totals = await self._totals(channel)
                await self._look_at_oldest(channel, totals.get(PARKED, 0))
                await channel.close()
            except CONNECTION_ERRORS:
                totals = {}
            oldest_s = 0.0 if self._oldest_at is None else max(time.time() - self._oldest_at, 0.0)
            self._observe.queues_sized(totals, oldest_s)
            await asyncio.sleep(SIZES_EVERY_S)

    async def _totals(self, channel: Channel) -> dict[str, int]:
        totals = dict.fromkeys((label for _, label in self._queues), 0)
        for queue, label in self._queues:
            found = await channel.queue_declare(queue, passive=True)
            totals[label] += found.message_count or 0
        return totals

    async def _look_at_oldest(self, channel: Channel, parked: int) -> None:
        """Ask for the first entry and give it back, when it may be another one than at the last look."""
        now, before = time.monotonic(), self._parked_before
        self._parked_before = parked
        if not parked:
            self._oldest_at = None
            return
        if before and parked >= before and now - self._looked_at < OLDEST_EVERY_S:
            return
        self._looked_at = now
        queue = next(name for name, label in self._queues if label == PARKED)
        message = await channel.basic_get(queue)
        if isinstance(message.delivery, Basic.GetEmpty):  # somebody else holds them all
            return
        age_s = parked_for_s(raw_message(message, queue), time.time())
        await channel.basic_nack(message.delivery_tag or 0, requeue=True)
        self._oldest_at = None if age_s is None else time.time() - age_s
