"""Count the messages of the parked queue without taking one."""

from __future__ import annotations

from typing import NamedTuple

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import ChannelNotFoundEntity

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, NOT_THERE, open_channel
from topology.names import Names

CALL_S = 15.0  #: longest wait for an answer of the broker


class ParkedCount(NamedTuple):
    """The size of the parked queue."""

    ready: int  #: messages that no consumer has in hand
    consumers: int  #: while there are some, further messages are in their hands


async def count_parked(connection: AbstractConnection, names: Names) -> ParkedCount:
    """Return the size of the parked queue; it takes no message.

    Raises:
        BrokerUnavailable: the queue does not exist, or the connection broke.
    """
    try:
        channel = await open_channel(connection, confirms=False)
        found = await channel.queue_declare(names.parked, passive=True, timeout=CALL_S)
        await channel.close()
    except CONNECTION_ERRORS as error:
        remedy = f"; {NOT_THERE}" if isinstance(error, ChannelNotFoundEntity) else ""
        reason = str(error) or type(error).__name__
        raise BrokerUnavailable(f"queue {names.parked}: {reason}{remedy}") from None
    return ParkedCount(found.message_count or 0, found.consumer_count or 0)
