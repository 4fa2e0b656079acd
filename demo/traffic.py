"""Publish events of five tenants as an application does: persistent, mandatory, confirmed, at a steady rate.

Data flow: number -> event of the next tenant -> leveret.events -> confirmed -> the book.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from consumer.edges.broker.connection.connect import AmqpOptions, close_quietly, connect
from consumer.edges.operate.paced import Schedule, publish_paced
from consumer.ports import Publication
from demo.cast import TENANTS, TYPES
from topology.names import Names


class Sent(NamedTuple):
    """One published event."""

    id: str
    tenant: str
    at: float  #: Unix seconds


async def publish(
    amqp_url: str, schedule: Schedule, made: Callable[[Sent], None], confirmed: Callable[[str], None]
) -> None:
    """Publish until the count of *schedule* is reached, or until cancelled.

    Args:
        amqp_url: URL of the broker.
        schedule: Number and rate of the events.
        made: Called with each event before it is sent, as a receiver may be faster than the confirm.
        confirmed: Called with the id of each confirmed event.

    Raises:
        BrokerUnavailable: the broker refused an event.
    """

    exchange = Names().events

    def make(number: int) -> Publication:
        sent = Sent(f"demo-{number:07d}", TENANTS[number % len(TENANTS)], time.time())
        made(sent)
        return Publication(
            exchange=exchange,
            routing_key=TYPES[number // len(TENANTS) % len(TYPES)],
            body=b'{"number":%d,"total":"%d.50"}' % (number, number % 90 + 10),
            headers={"tenant": sent.tenant},
            message_id=sent.id,
            timestamp_s=sent.at,
        )

    def report(publication: Publication) -> None:
        confirmed(str(publication.message_id))

    connection = await connect(AmqpOptions(urls=(amqp_url,)), "demo")
    try:
        await publish_paced(connection, exchange, make, schedule, report)
    finally:
        await close_quietly(connection)
