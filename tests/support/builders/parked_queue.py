"""Park many entries on a real broker at once, as workers do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aio_pika.abc import AbstractConnection

from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.parked import ParkNote, delivery_entry_headers
from consumer.core.model import Attempt, Event, OutcomeKind, ParkReason
from consumer.edges.broker.connection.connect import open_channel
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import Publication
from topology.names import Names
from topology.plan import TopologySpec

FEW_QUEUES = TopologySpec(lanes=1, due_queues=1, spill_queues=0, rungs_s=(2.0,))
FEW_QUEUES_SETTINGS = {
    "TOPOLOGY__LANES": "1",
    "TOPOLOGY__DUE_QUEUES": "1",
    "TOPOLOGY__SPILL_QUEUES": "0",
    "TOPOLOGY__RUNGS_S": "[2]",
}
"""The settings of :data:`FEW_QUEUES`."""


def failed(number: int, tenant: str, target: str, at: float, *, status: int = 503) -> DeliveryMessage:
    """Return the delivery of ``e<number>``, which failed once."""
    event = Event(
        id=f"e{number:05}",
        tenant=tenant,
        type="order.created" if number % 2 else "order.paid",
        timestamp="2026-01-01T00:00:00Z",
        arrived_at=at - 60,
        body=b'{"number":%d}' % number,
    )
    kind = OutcomeKind.HTTP_5XX if status >= 500 else OutcomeKind.HTTP_4XX
    attempt = Attempt(number=1, at=at - 1, kind=kind, status=status, duration_s=0.25)
    return DeliveryMessage(event=event, targets=(target,), attempts=(attempt,), attempts_made=1)


async def park_all(
    connection: AbstractConnection, names: Names, deliveries: Iterable[tuple[DeliveryMessage, float]]
) -> list[str]:
    """Park each delivery at its time (Unix seconds); return the ids of the entries."""
    channel = await open_channel(connection, confirms=True)
    confirms, ids, publishing = Confirms(channel), [], []
    for message, at in deliveries:
        note = ParkNote(reason=ParkReason.EXHAUSTED, detail="HTTP 503", at=at, ttl_s=604_800.0)
        headers = delivery_entry_headers(message, note)
        ids.append(str(headers["leveret-entry"]))
        key = names.parked_key(note.reason.value)
        parked = Publication(exchange=names.dlx, routing_key=key, body=message.event.body, headers=headers)
        publishing.append(confirms.publish(parked, message.event.id))
    await asyncio.gather(*publishing)
    await channel.close()
    return ids
