"""Measure over AMQP how large a message the broker accepts, as the management API does not report it.

One message that is a byte too large is published to an exchange that does not exist. The broker checks the
size first, so that the message never reaches a queue: it refuses either the size or the exchange.

Source: rabbitmq-server, rabbit_channel.erl, ``basic.publish`` (``check_msg_size`` before the exchange).
"""

from __future__ import annotations

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import AMQPError, ChannelPreconditionFailed

from topology.check import Finding, Severity
from topology.plan import Plan
from topology.wire import Channels

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The default of RabbitMQ 4. On 3.10 it is 128 MiB."""


async def size_findings(plan: Plan, connection: AbstractConnection) -> tuple[Finding, ...]:
    """Return a warning if the broker accepts messages of more than :data:`MAX_MESSAGE_BYTES`."""
    channels = Channels(connection)
    try:
        channel = await channels.wire()
        try:
            await channel.basic_publish(
                bytes(MAX_MESSAGE_BYTES + 1), exchange=f"{plan.prefix}.nowhere", mandatory=True
            )
        except ChannelPreconditionFailed:
            return ()
        except AMQPError:
            pass
    finally:
        await channels.close()
    return (
        Finding(
            Severity.WARNING,
            "max_message_size",
            f"is above {MAX_MESSAGE_BYTES} bytes: a few publishers can fill the memory of broker and workers",
            f"set max_message_size = {MAX_MESSAGE_BYTES} in rabbitmq.conf, or less",
        ),
    )
