"""Create a plan on the broker: plan + connection -> idempotent declarations.

Data flow: Plan -> one channel (a new one after each refusal) -> declared, with warnings; or an error that
names the queue and the argument. This module never retries: each difference is reported once.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import ChannelNotFoundEntity

from topology.check import emptying_remedy
from topology.errors import (
    ExchangeMissing,
    NotPermitted,
    PluginMissing,
    TopologyConflict,
    TopologyError,
)
from topology.names import Names
from topology.plan import Difference, Plan, QueuePlan
from topology.wire import Channels, binding_step, exchange_step, queue_step, run_step, unbinding_step

__all__ = [
    "ExchangeMissing",
    "NotPermitted",
    "PluginMissing",
    "TopologyConflict",
    "TopologyError",
    "declare",
    "declare_queue",
]


async def declare(plan: Plan, connection: AbstractConnection) -> tuple[str, ...]:
    """Declare all of *plan*; parts that already exist as planned are left alone.

    Args:
        plan: The wanted state of the broker.
        connection: An open connection of a user with configure, write and read rights on our names.

    Returns:
        One warning for each argument that depends on settings and is used as found, and for each family of
        queues that had more members before.

    Raises:
        TopologyConflict: a queue or exchange differs in a way that cannot be used as found.
        PluginMissing: the consistent-hash plugin is not enabled; the connection is closed by then.
        ExchangeMissing: a source names an exchange that does not exist.
        NotPermitted: the user lacks a right.
    """
    channels = Channels(connection)
    try:
        for name in plan.foreign_exchanges:
            await _require(channels, name)
        for exchange in plan.exchanges:
            await run_step(channels, exchange_step(exchange), f"exchange {exchange.name}")
        adopted = [found for queue in plan.queues for found in await declare_queue(channels, queue)]
        for binding in plan.bindings:
            await run_step(channels, binding_step(binding), str(binding))
        for binding in plan.unbound:
            await run_step(channels, unbinding_step(binding), f"no {binding}")
        left = [text for name in _next_queues(plan) for text in await _leftover_warnings(channels, name)]
    finally:
        await channels.close()
    used = (f"queue {f.name}: {f}; used as it is (drain, delete and apply to change it)" for f in adopted)
    return (*used, *left)


def _next_queues(plan: Plan) -> list[str]:
    """Return the queue after the last lane, due and spill queue; it exists if there were more before."""
    names, planned = Names(plan.prefix), {queue.name for queue in plan.queues}
    families = (names.lane, names.due_queue, names.spill)
    return [next(name for name in map(of, count()) if name not in planned) for of in families]


async def _leftover_warnings(channels: Channels, name: str) -> list[str]:
    """Return a warning about a queue of an earlier plan, which may still get messages but has no consumer."""
    wire = await channels.wire()
    try:
        found = await wire.queue_declare(name, passive=True)
    except ChannelNotFoundEntity:
        return []
    text = f"is no longer in the plan and contains {found.message_count} messages"
    return [f"queue {name} {text}; {emptying_remedy(name)}"]


async def _require(channels: Channels, name: str) -> None:
    wire = await channels.wire()
    try:
        await wire.exchange_declare(name, passive=True)
    except ChannelNotFoundEntity as error:
        raise ExchangeMissing(
            f"exchange {name} does not exist, but [[sources]] names it; create it or correct the name"
        ) from error


async def declare_queue(channels: Channels, queue: QueuePlan) -> list[Difference]:
    """Declare one queue; adopt the found values of arguments that depend on settings.

    The broker names one difference at a time. The declaration is therefore repeated with the found value, at
    most once per such argument, so that later differences are found too.
    """
    arguments = dict(queue.arguments)
    adopted: list[Difference] = []
    while True:
        try:
            await run_step(channels, queue_step(queue.name, arguments), f"queue {queue.name}")
        except TopologyConflict as conflict:
            found = conflict.difference
            seen = {earlier.argument for earlier in adopted}
            if found.argument not in queue.follows - seen or not _adopt(arguments, found):
                raise
            adopted.append(found)
        else:
            return adopted


def _adopt(arguments: dict[str, Any], difference: Difference) -> bool:
    """Replace our value by the found one; return False if the found value cannot be read."""
    value = str(difference.found)
    if value == "none":
        arguments.pop(difference.argument, None)
    elif value.isdecimal():
        arguments[difference.argument] = int(value)
    else:
        return False
    return True
