"""Fault 98: most nodes are away while nothing is published; the last one answers as ever."""

from __future__ import annotations

import asyncio

from consumer.core.returns.check_headers import is_only_check
from consumer.edges.broker.connection.connect import AmqpOptions
from consumer.ports import Publication
from tests.support.broker.behaviour import V4_0
from tests.support.broker.fake_broker import FakeBroker
from tests.support.broker.topology import PATIENCE_S, SMALL
from tests.support.broker.whole_edge import edge_on
from tests.support.servers.raw_server import eventually

NAMES = SMALL.names


async def test_a_lost_quorum_turns_a_quiet_worker_unready() -> None:
    """It is ready again after the return, and no message but checks was put into a queue."""
    async with asyncio.timeout(PATIENCE_S), FakeBroker(V4_0) as broker:
        amqp = AmqpOptions(urls=(broker.url,), confirm_slow_s=0.5)
        async with edge_on(broker.url, amqp) as (edge, listener, ports):
            await eventually(lambda: edge.unready() is None)
            broker.lose_quorum()
            await eventually(lambda: "no queue has confirmed" in (edge.unready() or ""))
            broker.regain_quorum()
            await eventually(lambda: edge.unready() is None)

            await ports.publisher.publish(Publication(exchange=NAMES.events, routing_key="a.b", body=b"1"))
            taken = []
            while (incoming := (await listener.taken.get())[1]).message.body != b"1":
                taken.append(incoming.message)
            assert all(is_only_check(message.headers) for message in taken)
