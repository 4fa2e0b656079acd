"""Check a broker over AMQP alone: plan + connection -> findings. It creates nothing.

Data flow: Plan -> passive declarations (does it exist?) -> the same declaration again for existing parts (are
the arguments equal?) -> findings. The second step needs the configure right. Without it, arguments are not
compared, and a note reports that. Bindings cannot be read over AMQP.
"""

from __future__ import annotations

from collections.abc import Iterator

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import ChannelAccessRefused, ChannelNotFoundEntity

from topology.check import Finding, Severity, difference_finding, missing_finding, missing_source_finding
from topology.declare import declare_queue
from topology.errors import NotPermitted, TopologyConflict
from topology.plan import ExchangePlan, Plan, QueuePlan
from topology.wire import (
    Channels,
    Step,
    exchange_step,
    passive_exchange_step,
    passive_queue_step,
    run_step,
)


async def probe(plan: Plan, connection: AbstractConnection) -> tuple[Finding, ...]:
    """Return the differences that AMQP can show; for each queue or exchange the first hard difference.

    Args:
        plan: The wanted state of the broker.
        connection: An open connection; the comparison of arguments needs the right to configure our names.
    """
    channels = Channels(connection)
    findings: list[Finding] = []
    uncompared = False
    try:
        for name in plan.foreign_exchanges:
            try:
                if not await _exists(channels, passive_exchange_step(name)):
                    findings.append(missing_source_finding(name))
            except NotPermitted:
                uncompared = True
        parts: tuple[ExchangePlan | QueuePlan, ...] = (*plan.exchanges, *plan.queues)
        for part in parts:
            try:
                findings.extend(await _look(channels, part))
            except NotPermitted:
                uncompared = True
    finally:
        await channels.close()
    return (*findings, *_notes(plan, uncompared=uncompared))


async def missing_parts(plan: Plan, connection: AbstractConnection) -> tuple[Finding, ...]:
    """Return the queues and exchanges that do not exist (``run --no-declare``).

    This needs no right, and from RabbitMQ 4.3.1 on any one right on each name.

    Raises:
        NotPermitted: the user has no right on one of them.
    """
    channels = Channels(connection)
    try:
        return (
            *[
                missing_source_finding(name)
                for name in plan.foreign_exchanges
                if not await _exists(channels, passive_exchange_step(name))
            ],
            *[
                missing_finding("exchange", exchange.name)
                for exchange in plan.exchanges
                if not await _exists(channels, passive_exchange_step(exchange.name))
            ],
            *[
                missing_finding("queue", queue.name)
                for queue in plan.queues
                if not await _exists(channels, passive_queue_step(queue.name))
            ],
        )
    finally:
        await channels.close()


def _notes(plan: Plan, *, uncompared: bool) -> Iterator[Finding]:
    if uncompared:
        yield Finding(
            Severity.NOTE,
            f"arguments of {plan.prefix}.*",
            "were not compared over AMQP: the user has no right to configure them",
            "check with a user that has this right, or with the management API",
        )


async def _exists(channels: Channels, step: Step) -> bool:
    """Return whether a passive declaration finds its exchange or queue.

    Raises:
        NotPermitted: the broker is RabbitMQ 4.2.6 or later, and the user has no right on it.
    """
    try:
        await step(await channels.wire())
    except ChannelNotFoundEntity:
        return False
    except ChannelAccessRefused as error:
        raise NotPermitted(
            f"{error.args[0]}; grant the rights that `leveret topology permissions` prints "
            "(RabbitMQ 4.2.6 and 4.3.0 demand the configure right here; their next releases do not)"
        ) from error
    return True


async def _look(channels: Channels, part: ExchangePlan | QueuePlan) -> list[Finding]:
    """Compare one exchange or queue, if it exists.

    Raises:
        NotPermitted: the user has no right to configure the part, or none at all.
    """
    if isinstance(part, ExchangePlan):
        kind, passive = "exchange", passive_exchange_step(part.name)
    else:
        kind, passive = "queue", passive_queue_step(part.name)
    if not await _exists(channels, passive):
        return [missing_finding(kind, part.name)]
    try:
        if isinstance(part, ExchangePlan):
            await run_step(channels, exchange_step(part), f"exchange {part.name}")
            return []
        return [difference_finding(found, soft=True) for found in await declare_queue(channels, part)]
    except TopologyConflict as conflict:
        return [difference_finding(conflict.difference, soft=False)]
