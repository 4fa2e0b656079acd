"""Send waiting deliveries at once, as after a reset or a resume.

Data flow: Wanted -> rungs -> leveret.due, confirmed -> :class:`Released`.
"""

from __future__ import annotations

from dataclasses import dataclass

from aio_pika.abc import AbstractConnection

from consumer.core.errors import BrokerUnavailable
from consumer.core.message.waiting import Wanted
from consumer.edges.operate.control import freeing, report_to_workers
from consumer.edges.operate.waiting import Unread, WaitQueues, kick
from topology.plan import TopologySpec


@dataclass(frozen=True, slots=True)
class Released:
    """The number of released deliveries, and what was left."""

    count: int
    unread: tuple[str, ...] = ()  #: why some messages were not looked at; such deliveries go at their times


async def release(connection: AbstractConnection, spec: TopologySpec, wanted: Wanted) -> Released:
    """Move the *wanted* deliveries to their due queues; a broker that goes away is one reason in the result.

    The workers cancel the reservations of these deliveries first, and note which of them wait.

    Args:
        connection: Connection to the broker.
        spec: Names and rungs of our queues.
        wanted: The deliveries.
    """
    count, unread = 0, []
    if (message := freeing(wanted)) is not None:
        await report_to_workers(connection, spec.names, message)
    try:
        async for one in kick(connection, WaitQueues(spec.names, spec.ladder), wanted):
            if isinstance(one, Unread):
                unread.append(f"{one.queue}: {one.count} messages were not looked at: {one.why}")
            else:
                count += len(one.message.targets)
    except BrokerUnavailable as error:
        unread.append(f"the others go at their own times: {error}")
    return Released(count, tuple(unread))
