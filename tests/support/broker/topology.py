"""Speak to a real broker in tests: declare a plan, publish confirmed, wait for messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import DeliveryError

from topology.declare import declare
from topology.plan import Plan, TopologySpec, build_plan

PATIENCE_S = 150.0
"""Longest wait for a message that must come."""

SMALL = TopologySpec(lanes=2, due_queues=2, spill_queues=1, rungs_s=(0.05, 0.1, 0.2, 0.4))
"""A short ladder and few queues, for tests that need no more."""


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[AbstractConnection]:
    """Open a connection and close it."""
    connection = await aio_pika.connect(url)
    async with connection:
        yield connection


@dataclass(slots=True)
class Live:
    """A plan that was declared on a broker, and a channel with confirms."""

    plan: Plan
    connection: AbstractConnection
    channel: AbstractChannel

    async def publish(
        self, exchange: str, key: str, body: bytes = b"{}", headers: Mapping[str, Any] | None = None
    ) -> None:
        """Publish persistent, mandatory and confirmed; raises on return and on nack."""
        message = aio_pika.Message(body, headers=dict(headers or {}), delivery_mode=2)
        target = await self.channel.get_exchange(exchange, ensure=False)
        await target.publish(message, key, mandatory=True)

    async def take(self, queues: Sequence[str], count: int) -> list[tuple[str, AbstractIncomingMessage]]:
        """Consume and ack *count* messages from *queues*; return each with the queue it was in."""
        arrived: asyncio.Queue[tuple[str, AbstractIncomingMessage]] = asyncio.Queue()
        channel = await self.connection.channel()
        for name in queues:
            queue = await channel.get_queue(name, ensure=False)

            async def put(message: AbstractIncomingMessage, name: str = name) -> None:
                await message.ack()
                await arrived.put((name, message))

            await queue.consume(put)
        async with asyncio.timeout(PATIENCE_S):
            taken = [await arrived.get() for _ in range(count)]
        await channel.close()
        return taken

    async def return_until_gone(self, queue: str, times: int) -> None:
        """Take the one message of *queue* and give it back unsettled, *times* times."""
        channel = await self.connection.channel()
        await channel.set_qos(prefetch_count=1)
        handle = await channel.get_queue(queue, ensure=False)
        async with asyncio.timeout(PATIENCE_S), handle.iterator() as messages:
            for _ in range(times):
                await (await anext(messages)).nack(requeue=True)
        await channel.close()


@asynccontextmanager
async def standing(url: str, spec: TopologySpec) -> AsyncIterator[Live]:
    """Declare the plan of *spec* on the vhost of *url*."""
    plan = build_plan(spec)
    async with connected(url) as connection:
        assert await declare(plan, connection) == ()
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        yield Live(plan, connection, channel)


async def count_until_refused(live: Live) -> int:
    """Park up to 50 entries; return how many the broker took before it nacked."""
    for accepted in range(50):
        try:
            await live.publish(SMALL.names.dlx, SMALL.names.parked_key("exhausted"), b"parked")
        except DeliveryError:
            return accepted
    return 50
