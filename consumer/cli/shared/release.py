"""Send what waits on the ladder at once, for commands after which it may go.

Data flow: Wanted -> rungs -> leveret.due, confirmed; how many that were -> the command's output.
"""

from __future__ import annotations

from consumer.cli.shared.link import find_broker
from consumer.cli.shared.output import warn
from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.core.message.waiting import Wanted
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.waiting import Passed, Ways, kick
from consumer.settings import Settings


async def release(settings: Settings, wanted: Wanted) -> int:
    """Send what is meant to its due queue, as `leveret waiting kick` does; return how many deliveries.

    A broker that is away keeps the command from nothing: it says so, and what waits comes at its own time.
    """
    spec, count = settings.topology_spec(), 0
    try:
        connection = await connect(find_broker(settings).options, "waiting")
        try:
            async for one in kick(connection, Ways(spec.names, spec.ladder), wanted):
                if isinstance(one, Passed):
                    warn(f"{one.queue}: {one.count} messages were passed by: {one.why}")
                else:
                    count += len(one.message.targets)
        finally:
            await close_quietly(connection)
    except (BrokerUnavailable, ConfigError) as error:
        warn(f"{count} waiting deliveries were released, others come at their own times: {error}")
    return count
