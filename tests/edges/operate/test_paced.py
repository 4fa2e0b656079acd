"""``publish_paced`` against a real broker: a refusal costs no event in flight its confirm."""

from __future__ import annotations

import pytest
from pamqp.common import FieldTable

from consumer.core.errors import Refused
from consumer.edges.operate.paced import Schedule, publish_paced
from consumer.ports import Publication
from tests.support.broker.topology import connected

EXCHANGE = "paced"


def event(number: int, last: int) -> Publication:
    """Return a publication for the queue that stores it; the last is for the full one."""
    key = "full" if number == last else "stored"
    return Publication(
        exchange=EXCHANGE, routing_key=key, body=bytes(1000), headers={}, message_id=f"event-{number}"
    )


@pytest.mark.parametrize("rate_per_s", [None, 2_000.0])
async def test_a_refusal_leaves_the_events_in_flight_their_confirms(
    vhost: str, rate_per_s: float | None
) -> None:
    """Fault 64: a full queue refuses at once, while a quorum queue confirms after its write to the disk."""
    confirmed: list[str | None] = []
    quorum: FieldTable = {"x-queue-type": "quorum"}
    full: FieldTable = {"x-max-length": 0, "x-overflow": "reject-publish"}
    async with connected(vhost) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(EXCHANGE, "topic", durable=True)
        for name, arguments in (("stored", quorum), ("full", full)):
            await (await channel.declare_queue(name, durable=True, arguments=arguments)).bind(exchange, name)

        with pytest.raises(Refused, match="a lane is full"):
            await publish_paced(
                connection,
                EXCHANGE,
                lambda number: event(number, 60),
                Schedule(count=10_000, rate_per_s=rate_per_s),
                lambda publication: confirmed.append(publication.message_id),
            )
        stored = await channel.declare_queue("stored", passive=True)

    assert stored.declaration_result.message_count == len(confirmed)
    assert set(confirmed) >= {f"event-{number}" for number in range(1, 60)}
