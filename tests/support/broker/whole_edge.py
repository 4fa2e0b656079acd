"""Run the consuming and the publishing half of the broker edge together, as a worker does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from consumer.edges.broker.broker_ports import BrokerOptions, BrokerPorts
from consumer.edges.broker.connection.connect import AmqpOptions
from consumer.edges.broker.consume.prefetch import windows
from consumer.edges.broker.edge import BrokerEdge, EdgeOptions
from consumer.settings import load_settings
from consumer.tasks import end
from tests.support.broker.reading import Listener, observer
from tests.support.broker.topology import SMALL
from topology.plan import build_plan

NAMES = SMALL.names
SPEC = replace(SMALL, due_queues=3)  #: with fewer the quorum is not watched


@asynccontextmanager
async def edge_on(
    url: str, amqp: AmqpOptions | None = None, *, declare: bool = True
) -> AsyncIterator[tuple[BrokerEdge, Listener, BrokerPorts]]:
    """Run the whole edge on the broker at *url*, with the windows of the default settings."""
    edge, listener, ports = built(url, amqp, declare=declare)
    running = asyncio.create_task(edge.run())
    try:
        yield edge, listener, ports
    finally:
        await end([running])


def built(
    url: str, amqp: AmqpOptions | None = None, *, declare: bool
) -> tuple[BrokerEdge, Listener, BrokerPorts]:
    """Return an edge that does not run yet."""
    settings = load_settings({"LEVERET_TOPOLOGY__LANES": "2", "LEVERET_TOPOLOGY__DUE_QUEUES": "3"})
    planned = {queue.name for queue in build_plan(SPEC).queues}
    opened = [replace(w, queues=tuple(q for q in w.queues if q in planned)) for w in windows(settings)]
    listener = Listener()
    options = BrokerOptions(
        amqp=amqp or AmqpOptions(urls=(url,)), plan=build_plan(SPEC), instance="test", declare=declare
    )
    ports = BrokerPorts(options, observer())
    control = NAMES.control if declare else None
    edge = BrokerEdge(EdgeOptions(windows=opened, control=control), ports, listener, observer())
    return edge, listener, ports
