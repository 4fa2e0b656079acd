"""Send waiting deliveries at once, for commands such as ``resume`` and ``breaker reset``.

Data flow: Wanted -> rungs -> leveret.due, confirmed; their number -> the command's output.
"""

from __future__ import annotations

from consumer.cli.shared.output import warn
from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.message.waiting import Wanted
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.waiting import Unread, WaitQueues, kick
from consumer.settings import Settings


async def release(settings: Settings, wanted: Wanted) -> int:
    """Move the *wanted* deliveries to their due queues, as `leveret waiting kick` does; return their number.

    If the broker is away, the function warns, and the deliveries leave the ladder at their own times.
    """
    spec, count = settings.topology_spec(), 0
    try:
        connection = await connect(find_broker(settings).options, "waiting")
        try:
            async for one in kick(connection, WaitQueues(spec.names, spec.ladder), wanted):
                if isinstance(one, Unread):
                    warn(f"{one.queue}: {one.count} messages were not looked at: {one.why}")
                else:
                    count += len(one.message.targets)
        finally:
            await close_quietly(connection)
    except (BrokerUnavailable, ConfigError) as error:
        warn(f"{count} waiting deliveries were released, the others go at their own times: {error}")
    return count
