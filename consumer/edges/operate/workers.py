"""Count the workers by their consumers: the broker knows them where no worker can be asked."""

from __future__ import annotations

from typing import NamedTuple

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import ChannelNotFoundEntity

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel
from topology.names import Names

CALL_S = 2.0  #: longest wait for an answer of the broker


class WorkersSeen(NamedTuple):
    """The workers that the broker knows."""

    consuming: int  #: workers that take deliveries
    ever: bool  #: whether the queues exist: a worker makes them at its first start


async def count_workers(connection: AbstractConnection, names: Names) -> WorkersSeen:
    """Return how many workers consume. Each has one consumer on each due queue.

    Raises:
        BrokerUnavailable: the connection broke, or the broker does not answer.
    """
    try:
        channel = await open_channel(connection, confirms=False)
        found = await channel.queue_declare(names.due_queue(0), passive=True, timeout=CALL_S)
        await channel.close()
    except ChannelNotFoundEntity:
        return WorkersSeen(0, ever=False)
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(str(error) or type(error).__name__) from None
    return WorkersSeen(found.consumer_count or 0, ever=True)
