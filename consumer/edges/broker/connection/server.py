"""The broker at the other end of a connection: its version, its queues, and consumers that it cancels."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from aiormq.exceptions import ChannelNotFoundEntity

from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, open_channel

EXISTS_S = 5.0  #: longest wait for the answer whether a queue exists

_FAILURES_ONLY = (4, 3)
"""First version whose quorum queues count a ``basic.reject`` and a lost channel, and no ``basic.nack``."""


def counts_only_failures(channel: Channel) -> bool:
    """Return whether the broker counts only failed deliveries; False where its version is unknown."""
    version = str(channel.connection.server_properties.get("version", ""))
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= _FAILURES_ONLY


def close_if_cancelled(channel: Channel) -> None:
    """Close *channel* once the broker cancels one of its consumers, as up to RabbitMQ 4.2 a time-out does.

    Its user then meets a closed channel, instead of a consumer that gets nothing.
    """
    closing: list[asyncio.Task[None]] = []  # keeps the task until its end

    def close(_cancel: object) -> None:
        if not closing:
            closing.append(asyncio.get_running_loop().create_task(_closed(channel)))

    channel.on_consumer_cancel_callbacks.add(close)


async def _closed(channel: Channel) -> None:
    with suppress(*CONNECTION_ERRORS):
        await channel.close(timeout=EXISTS_S)


async def is_there(connection: AbstractConnection, queue: str) -> bool | None:
    """Return whether *queue* exists; None if the broker does not answer, or refuses to."""
    try:
        channel = await open_channel(connection, confirms=False)
        await channel.queue_declare(queue, passive=True, timeout=EXISTS_S)
    except ChannelNotFoundEntity:
        return False
    except CONNECTION_ERRORS:
        return None
    await _closed(channel)
    return True
