"""An application that publishes events."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange

from topology.names import Names


class EventPublisher:
    """The application of a user: it publishes persistent, mandatory and confirmed."""

    def __init__(self, amqp_url: str, prefix: str = "leveret") -> None:
        self._url = amqp_url
        self._names = Names(prefix)
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._exchange: AbstractExchange | None = None

    async def __aenter__(self) -> EventPublisher:
        self._connection = await aio_pika.connect(self._url)
        self._channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        self._exchange = await self._channel.get_exchange(self._names.events, ensure=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()

    @property
    def channel(self) -> AbstractChannel:
        """The channel, for other operations of a test on the broker."""
        assert self._channel is not None
        return self._channel

    async def publish(
        self,
        tenant: str | None,
        kind: str = "order.created",
        body: bytes = b'{"n":1}',
        event_id: str = "",
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> str:
        """Publish one event and return its id.

        Args:
            tenant: Its tenant header; None leaves it out.
            kind: Routing key.
            body: Its bytes.
            event_id: ``message_id``; an empty text makes one.
            headers: Besides the tenant.
            properties: Of the message, as aio-pika names them.
        """
        made = f"evt_{secrets.token_hex(8)}" if event_id == "" else event_id
        named = {} if tenant is None else {"tenant": tenant}
        message = aio_pika.Message(
            body,
            headers={**named, **(headers or {})},
            message_id=made,
            delivery_mode=2,
            **{"content_type": "application/json", **properties},
        )
        assert self._exchange is not None
        await self._exchange.publish(message, kind, mandatory=True)
        return made

    async def publish_many(self, tenant: str, count: int, kind: str = "order.created") -> list[str]:
        """Publish *count* events side by side and return their ids."""
        return list(await asyncio.gather(*(self.publish(tenant, kind) for _ in range(count))))
