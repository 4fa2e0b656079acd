"""Publish one event, confirmed by the broker. Give it the broker's URL in AMQP_URL."""

import asyncio
import os
import uuid
from datetime import UTC, datetime

import aio_pika


async def main() -> None:
    """Publish ``order.created`` of tenant ``acme``."""
    async with await aio_pika.connect(os.environ["AMQP_URL"]) as connection:
        channel = await connection.channel()  # with publisher confirms
        exchange = await channel.get_exchange("leveret.events")
        message = aio_pika.Message(
            b'{"id":"ord_1","total":"12.50"}',
            content_type="application/json",
            message_id=str(uuid.uuid4()),  # becomes webhook-id
            timestamp=datetime.now(UTC),  # when it happened
            headers={"tenant": "acme"},
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        await exchange.publish(message, routing_key="order.created")  # the event type


asyncio.run(main())
