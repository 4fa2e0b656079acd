"""Send topology declarations to the broker, one at a time, and turn refusals into our own errors.

Data flow: queue, exchange or binding of a plan -> step -> sent over the open channel -> done, or an error
with the remedy. Shared by declare and probe.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.abc import AbstractChannel as Wire
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionCommandInvalid,
)
from pamqp.common import FieldValue

from topology.errors import (
    NotPermitted,
    PluginMissing,
    TopologyConflict,
    TopologyError,
)
from topology.plan import Argument, BindingPlan, Difference, ExchangePlan

_INEQUIVALENT = re.compile(
    r"inequivalent arg '(?P<argument>[^']+)' for (?P<kind>queue|exchange) '(?P<name>.+)' in vhost '.*': "
    r"received (?P<received>.+) but current is (?P<current>.+)$"
)
_VALUE = re.compile(r"(?:the value )?'(?P<text>.*?)'(?: of type '[^']+')?")

#: One declaration, sent over any open channel.
Step: TypeAlias = Callable[[Wire], Awaitable[object]]


def parse_refusal(text: str) -> Difference | None:
    """Read the broker's ``PRECONDITION_FAILED`` text; ``None`` if it has another form.

    The broker names only the first argument that differs.

    Source: the text of RabbitMQ 3.10.8, recorded from a real broker.
    """
    match = _INEQUIVALENT.search(text)
    if match is None:
        return None
    return Difference(
        kind=match["kind"],
        name=match["name"],
        argument=match["argument"],
        expected=_plain(match["received"]),
        found=_plain(match["current"]),
    )


def _plain(text: str) -> str:
    value = _VALUE.fullmatch(text)
    return value["text"] if value else text


@dataclass(slots=True)
class Channels:
    """One open channel at a time, because the broker closes the channel with each refusal."""

    connection: AbstractConnection
    current: AbstractChannel | None = field(default=None)

    async def wire(self) -> Wire:
        if self.current is None or self.current.is_closed:
            self.current = self.connection.channel()
            await self.current.initialize()
        return await self.current.get_underlay_channel()

    async def close(self) -> None:
        if self.current is not None and not self.current.is_closed and not self.connection.is_closed:
            await self.current.close()


async def run_step(channels: Channels, step: Step, what: str) -> None:
    """Run one declaration and turn the broker's refusals into our errors."""
    try:
        await step(await channels.wire())
    except ChannelPreconditionFailed as error:
        if "unknown exchange type" in str(error.args[0]):  # RabbitMQ 4; 3 closes the connection instead
            raise _plugin_missing(what, error) from error
        difference = parse_refusal(str(error.args[0]))
        if difference is None:
            raise TopologyError(f"{what}: the broker refused it: {error.args[0]}") from error
        raise TopologyConflict(difference) from error
    except ChannelNotFoundEntity as error:
        raise TopologyError(f"{what}: {error.args[0]}; it was deleted meanwhile, apply again") from error
    except ChannelLockedResource as error:
        raise TopologyError(f"{what}: another connection holds it exclusively; end that one") from error
    except ChannelAccessRefused as error:
        raise NotPermitted(
            f"{what}: {error.args[0]}; grant the rights that `leveret topology permissions` prints"
        ) from error
    except ConnectionCommandInvalid as error:
        raise _plugin_missing(what, error) from error


def _plugin_missing(what: str, error: Exception) -> PluginMissing:
    return PluginMissing(
        f"{what}: {error.args[0]}; run `rabbitmq-plugins enable rabbitmq_consistent_hash_exchange`, "
        "or set [topology] consistent_hash = false and lanes = 1"
    )


def queue_step(name: str, arguments: dict[str, Argument]) -> Step:
    """Declare one durable queue."""

    async def step(wire: Wire) -> None:
        await wire.queue_declare(name, durable=True, arguments=dict(arguments))

    return step


def exchange_step(exchange: ExchangePlan) -> Step:
    """Declare one durable exchange."""

    async def step(wire: Wire) -> None:
        await wire.exchange_declare(
            exchange.name,
            exchange_type=exchange.type,
            durable=True,
            arguments=dict(exchange.arguments),
        )

    return step


def binding_step(binding: BindingPlan) -> Step:
    """Create a binding; an existing one is left as it is."""

    async def step(wire: Wire) -> None:
        if binding.destination_type == "queue":
            arguments: dict[str, FieldValue] = dict(binding.arguments)
            await wire.queue_bind(
                binding.destination, binding.source, binding.routing_key, arguments=arguments
            )
        else:
            await wire.exchange_bind(binding.destination, binding.source, binding.routing_key)

    return step


def unbinding_step(binding: BindingPlan) -> Step:
    """Remove a binding; a missing one is ignored."""

    async def step(wire: Wire) -> None:
        source, destination, key = binding.source, binding.destination, binding.routing_key
        if binding.destination_type == "queue":
            arguments: dict[str, FieldValue] = dict(binding.arguments)
            await wire.queue_unbind(destination, source, key, arguments=arguments)
        else:
            await wire.exchange_unbind(destination, source, key)

    return step


def passive_exchange_step(name: str) -> Step:
    """Ask whether an exchange exists; this needs no right, and from RabbitMQ 4.3.1 on any one."""

    async def step(wire: Wire) -> None:
        await wire.exchange_declare(name, passive=True)

    return step


def passive_queue_step(name: str) -> Step:
    """Ask whether a queue exists; this needs no right, and from RabbitMQ 4.3.1 on any one."""

    async def step(wire: Wire) -> None:
        await wire.queue_declare(name, passive=True)

    return step
