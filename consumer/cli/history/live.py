"""Look into the rungs for ``leveret trace --live``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from consumer.cli.shared.interrupt import run_to_the_end
from consumer.cli.shared.output import warn
from consumer.cli.values.traces import Filters
from consumer.core.history.trace import EventKey, WaitingNow
from consumer.core.message.waiting import Wanted
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.operate.inquiry import SeenWaiting
from consumer.edges.operate.link import find_broker
from consumer.edges.operate.waiting import Unread, WaitQueues, browse
from consumer.settings import Settings


def look(settings: Settings, event_id: str | None, filters: Filters) -> Sequence[SeenWaiting]:
    """Return the chosen deliveries on the ladder; nothing changes but delivery counts.

    Raises:
        BrokerUnavailable: the broker is away or a rung does not exist.
    """
    wanted = Wanted(
        tenant=filters.tenant or None, subscription=filters.subscription_id or None, event=event_id
    )
    seen: dict[tuple[str, str, str], SeenWaiting] = {}

    async def run() -> None:
        spec = settings.topology_spec()
        connection = await connect(find_broker(settings).options, "trace")
        try:
            async with aclosing(browse(connection, WaitQueues(spec.names, spec.ladder), wanted)) as found:
                async for one in found:
                    if isinstance(one, Unread):
                        warn(f"{one.queue}: {one.count} messages were not looked at: {one.why}")
                        continue
                    message, event = one.message, one.message.event
                    for target in message.targets:
                        delivery = WaitingNow(target, message.attempts_made, message.not_before)
                        key = EventKey(event.id, event.tenant, event.type)
                        seen[(event.id, event.tenant, target)] = SeenWaiting(key, delivery)
        finally:
            await close_quietly(connection)

    run_to_the_end(run())
    return list(seen.values())
