"""Bind single tenants to spill queues and unbind them: the Routes port over AMQP.

Each call opens a channel: calls are rare, and a refusal closes the channel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from aiormq.channel import Channel
from aiormq.exceptions import ChannelAccessRefused

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, closable, open_channel
from consumer.edges.broker.connection.current import CurrentConnection
from topology.matching import tenant_arguments

T = TypeVar("T")


class BrokerRoutes:
    """The bindings of single tenants on one headers exchange."""

    def __init__(self, current: CurrentConnection, exchange: str, header: str, *, may_bind: bool) -> None:
        """Prepare; without a connection every call raises ``BrokerUnavailable``.

        Args:
            current: Provides the connection, while there is one.
            exchange: Headers exchange in front of the lanes.
            header: Header of a message that names the tenant.
            may_bind: False for a worker that declares nothing.
        """
        self._current = current
        self._exchange = exchange
        self._header = header
        self._may_bind = may_bind

    async def bind(self, tenant: str, queue: str) -> bool:
        """Route the events of *tenant* to *queue* instead of its lane; False without the right to bind."""
        if not self._may_bind:
            return False

        async def step(channel: Channel) -> bool:
            try:
                for wanted in tenant_arguments(self._header, tenant):
                    await channel.queue_bind(queue, self._exchange, "", arguments=dict(wanted))
            except ChannelAccessRefused:
                self._may_bind = False
            return self._may_bind

        return await self._on_channel(step)

    async def unbind(self, tenant: str, queue: str) -> None:
        """Route the events of *tenant* to its lane again; without a binding this does nothing."""
        if not self._may_bind:
            return

        async def step(channel: Channel) -> None:
            try:
                for wanted in tenant_arguments(self._header, tenant):
                    await channel.queue_unbind(queue, self._exchange, "", arguments=dict(wanted))
            except ChannelAccessRefused:
                self._may_bind = False

        await self._on_channel(step)

    async def ready(self, queues: Iterable[str]) -> Mapping[str, int]:
        """Return the number of ready messages in each of *queues*."""

        async def step(channel: Channel) -> dict[str, int]:
            found = {}
            for queue in queues:
                declared = await channel.queue_declare(queue, passive=True)
                found[queue] = int(declared.message_count or 0)
            return found

        return await self._on_channel(step)

    async def _on_channel(self, step: Callable[[Channel], Awaitable[T]]) -> T:
        connection = self._current.get()
        try:
            with closable():
                channel = await open_channel(connection, confirms=False)
                try:
                    return await step(channel)
                finally:
                    if not channel.is_closed:
                        await channel.close(timeout=5)
        except CONNECTION_ERRORS as error:
            raise BrokerUnavailable(f"bindings cannot be changed now: {error}") from None
