"""Send waiting deliveries at once, for commands such as ``resume`` and ``breaker reset``."""

from __future__ import annotations

from consumer.cli.shared.output import warn
from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.message.waiting import Wanted
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate import release as operate
from consumer.edges.operate.link import find_broker
from consumer.settings import Settings


async def release(settings: Settings, wanted: Wanted) -> int:
    """Move the *wanted* deliveries to their due queues, as `leveret waiting kick` does; return their number.

    If the broker is away, the function warns, and the deliveries leave the ladder at their own times.
    """
    try:
        connection = await connect(find_broker(settings).options, "waiting")
    except (BrokerUnavailable, ConfigError) as error:
        warn(f"waiting deliveries go at their own times: {error}")
        return 0
    try:
        released = await operate.release(connection, settings.topology_spec(), wanted)
    finally:
        await close_quietly(connection)
    for why in released.unread:
        warn(why)
    return released.count
