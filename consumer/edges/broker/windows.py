"""Consume from our queues: every window has a channel and a prefetch of its own.

A consumer callback only hands the message over. Losing a channel cancels its callbacks and would kill
requests in flight if they ran inside of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aio_pika.abc import AbstractConnection
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.connection import Connection

from consumer.core.model import RawMessage
from consumer.edges.broker.connect import CONNECTION_ERRORS, closed, open_channel, underlay
from consumer.flow.intake import Source
from consumer.flow.observe import Observer
from consumer.ports import Incoming

REOPEN_FIRST_S = 0.2
REOPEN_MAX_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some queues that are consumed alike."""

    source: Source
    queues: tuple[str, ...]
    prefetch: int  #: unacked messages per queue


class ChannelTicket:
    """Settles one message on the channel that it came by, and on no other.

    A delivery tag means nothing on another channel, so a ticket never outlives its own.
    """

    __slots__ = ("_observe", "_tag", "channel")

    def __init__(self, channel: Channel, tag: int, observe: Observer) -> None:
        self.channel = channel
        self._tag = tag
        self._observe = observe

    def alive(self) -> bool:
        """Whether the message is still ours to settle."""
        return not self.channel.is_closed

    async def ack(self) -> None:
        """Settle it; on a dead channel: count, it will come again."""
        try:
            await self.channel.basic_ack(self._tag, wait=False)
        except CONNECTION_ERRORS:
            self._observe.series.stale_settles.inc()

    async def requeue(self) -> None:
        """Give it back; on a dead channel the broker has done so already."""
        try:
            await self.channel.basic_nack(self._tag, requeue=True, wait=False)
        except CONNECTION_ERRORS:
            self._observe.series.stale_settles.inc()


@dataclass(slots=True)
class WindowReader:
    """Keeps one window open on the current connection."""

    window: Window
    observe: Observer
    deliver: Callable[[Source, Incoming], None]
    on_missing: Callable[[], None]  #: a queue is not there, or its consumer was cancelled
    consuming: bool = False
    _channel: Channel | None = None
    _cancelled: asyncio.Event | None = None

    async def run(self, connection: AbstractConnection) -> None:
        """Consume until the connection closes; a broken channel is opened anew."""
        transport, pause_s = underlay(connection), REOPEN_FIRST_S
        while not transport.is_closed:
            try:
                await self._consume(await open_channel(connection, confirms=False))
                pause_s = REOPEN_FIRST_S
                await self._until_broken(transport)
            except CONNECTION_ERRORS as error:
                self.observe.warned("window.failed", source=self.window.source.value, detail=str(error)[:300])
            finally:
                self.consuming = False
            self.on_missing()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, REOPEN_MAX_S)

    async def stop(self) -> None:
        """Cancel the consumers; the channel stays open for acks."""
        channel, self.consuming = self._channel, False
        if channel is None:
            return
        try:
            for tag in list(channel.consumers):
                await channel.basic_cancel(tag, timeout=5)
        except CONNECTION_ERRORS:
            return

    async def flush(self) -> None:
        """Return once the broker has everything that was settled: its answer stands behind the acks."""
        if self._channel is not None and not self._channel.is_closed:
            await self._channel.basic_qos(prefetch_count=self.window.prefetch, timeout=5)

    async def resume(self) -> None:
        """Consume again after :meth:`stop`."""
        if self._channel is not None and not self._channel.is_closed:
            await self._consume(self._channel)

    async def _consume(self, channel: Channel) -> None:
        self._channel, self._cancelled = channel, asyncio.Event()
        await channel.basic_qos(prefetch_count=self.window.prefetch)
        cancelled = self._cancelled
        channel.on_consumer_cancel_callbacks.add(lambda _frame: cancelled.set())
        for queue in self.window.queues:
            await channel.queue_declare(queue, passive=True)
            await channel.basic_consume(queue, self._callback(channel, queue), no_ack=False)
        self.consuming = True

    async def _until_broken(self, transport: Connection) -> None:
        channel, cancelled = self._channel, self._cancelled
        if channel is None or cancelled is None:
            return
        waiting = asyncio.ensure_future(cancelled.wait())
        closing = asyncio.ensure_future(closed(channel, transport))
        try:
            await asyncio.wait({waiting, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            closing.cancel()
        if cancelled.is_set():
            self.observe.warned("window.cancelled", source=self.window.source.value)
            await channel.close(timeout=5)

    def _callback(self, channel: Channel, queue: str) -> Callable[[DeliveredMessage], Any]:
        deliver, source, observe = self.deliver, self.window.source, self.observe

        async def take(message: DeliveredMessage) -> None:
            ticket = ChannelTicket(channel, message.delivery.delivery_tag or 0, observe)  # type: ignore[union-attr]
            deliver(source, Incoming(raw_message(message, queue), ticket))

        return take


def raw_message(message: DeliveredMessage, queue: str) -> RawMessage:
    """Translate a message of the library into the core's words."""
    delivery: Any = message.delivery  # the three kinds that carry a message have the same fields
    properties = message.header.properties
    headers: Mapping[str, Any] = properties.headers or {}
    stamp = properties.timestamp
    count = headers.get("x-delivery-count", 0)
    return RawMessage(
        body=message.body,
        headers=headers,
        exchange=delivery.exchange or "",
        routing_key=delivery.routing_key or "",
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        message_id=properties.message_id,
        type=properties.message_type,
        timestamp_s=None if stamp is None else stamp.timestamp(),
        expiration=properties.expiration,
        app_id=properties.app_id,
        correlation_id=properties.correlation_id,
        queue=queue,
        redelivered=bool(delivery.redelivered),
        delivery_count=count if isinstance(count, int) else 0,
    )
