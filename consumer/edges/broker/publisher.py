"""Publish persistent, mandatory, confirmed messages over a connection of their own.

A connection that publishes may be blocked by the broker (memory or disk alarm), and then nothing is read
from its socket, acks included: so acks travel on the other connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from aiormq.connection import Connection
from pamqp.commands import Basic

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.edges.broker.connect import (
    CONNECTION_ERRORS,
    AmqpOptions,
    KeepAlive,
    closed,
    open_channel,
    underlay,
)
from consumer.flow.observe import Observer
from consumer.ports import Publication

WATCH_S = 0.5  #: how often blocked connections and old confirms are looked for


@dataclass(slots=True)
class _Pending:
    """A publish that waits for its confirm."""

    began: float  #: loop time
    channel: Channel
    task: asyncio.Task[object] | None
    abandoned: bool = False  #: its channel closed: ended by us


class ConfirmingPublisher:
    """The Publisher port over AMQP."""

    def __init__(self, options: AmqpOptions, keep_alive: KeepAlive, random_id: str) -> None:
        self._options = options
        self._keep_alive = keep_alive
        self._observe: Observer = keep_alive.observe
        self._ids = map(f"{random_id}-{{:x}}".format, count())
        self._channel: Channel | None = None
        self._pending: dict[int, _Pending] = {}  #: oldest first
        self._numbers = count()
        self._pressed: str | None = "not connected yet"
        self._relieved = asyncio.Event()
        self._pressing = asyncio.Event()
        self._pressing.set()
        self.on_unroutable: Callable[[], None] = lambda: None
        self.on_pressure: Callable[[str | None], None] = lambda _reason: None
        self.failpoint: Callable[[str], Awaitable[None]] | None = None

    async def run(self) -> None:
        """Keep the publishing connection alive for ever."""
        await self._keep_alive.run(self._session)

    def pressed(self) -> str | None:
        """Say why no new attempt should start, or None."""
        return self._pressed

    async def relieved(self) -> None:
        """Return once nothing presses."""
        await self._relieved.wait()

    async def pressed_for(self, limit_s: float) -> None:
        """Return once it has been pressed for *limit_s* without a break."""
        while True:
            await self._pressing.wait()
            try:
                await asyncio.wait_for(self._relieved.wait(), limit_s)
            except TimeoutError:
                return

    async def publish(self, publication: Publication) -> None:
        """Return once the broker has confirmed it; see the port for the errors."""
        channel = self._channel
        if channel is None:
            raise BrokerUnavailable("no publishing connection to the broker")
        message_id = publication.message_id or next(self._ids)
        number, task = next(self._numbers), asyncio.current_task()
        pending = self._pending[number] = _Pending(asyncio.get_running_loop().time(), channel, task)
        try:
            publishing = publish_on(channel, publication, message_id)
            await (publishing if self.failpoint is None else self._past_failpoint(publishing))
        except aiormq.exceptions.PublishError:
            self.on_unroutable()
            raise Unroutable(
                f"exchange {publication.exchange}: no queue for {publication.routing_key}"
            ) from None
        except aiormq.exceptions.DeliveryError:
            raise Refused(f"exchange {publication.exchange}: nack for {publication.routing_key}") from None
        except asyncio.CancelledError:
            if task is not None and (task.uncancel() if pending.abandoned else task.cancelling()):
                raise
            raise BrokerUnavailable("the channel closed before the confirm") from None
        except CONNECTION_ERRORS as error:
            raise BrokerUnavailable(f"not confirmed: {error}") from None
        finally:
            del self._pending[number]
        self._observe.series.confirm.observe(asyncio.get_running_loop().time() - pending.began)

    async def _past_failpoint(self, publishing: Awaitable[object]) -> None:
        task = asyncio.ensure_future(publishing)
        if self.failpoint is not None:
            await self.failpoint("after-publish-before-confirm")
        await task

    async def _session(self, connection: AbstractConnection) -> None:
        transport = underlay(connection)
        watch = asyncio.create_task(self._watch(transport))
        try:
            while not transport.is_closed:
                await self._channel_session(connection, transport)
        finally:
            watch.cancel()
            self._press("not connected")

    async def _channel_session(self, connection: AbstractConnection, transport: Connection) -> None:
        """Serve publishes on one channel until it closes: a missing exchange closes it, say."""
        channel = self._channel = await open_channel(connection, confirms=True)
        self._press(None)
        try:
            await closed(channel, transport)
        finally:
            self._channel = None
            self._abandon(channel)
        self._press("the publishing channel closed")
        self.on_unroutable()
        await asyncio.sleep(self._options.reconnect_first_s)

    def _abandon(self, channel: Channel) -> None:
        """End the publishes that a dead channel left: the library does not end every one of them.

        What waited to be written when the connection was reset would wait for ever.
        """
        for pending in self._pending.values():
            if pending.channel is channel and pending.task is not None and not pending.abandoned:
                pending.abandoned = True
                pending.task.cancel()

    async def _watch(self, transport: Connection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_S)
            blocked = await _is_blocked(transport)
            oldest = next(iter(self._pending.values()), None)
            oldest_s = 0.0 if oldest is None else loop.time() - oldest.began
            channel = self._channel
            if blocked:
                self._press("the broker blocks publishers (memory or disk alarm)")
            elif channel is not None and oldest_s > self._options.confirm_lost_s:
                self._observe.warned("confirm.lost", age_s=round(oldest_s, 1))
                await _close_bounded(channel, self._options.confirm_slow_s)
            elif oldest_s > self._options.confirm_slow_s:
                self._press(f"a publish has waited over {self._options.confirm_slow_s:g} s for its confirm")
            elif channel is not None:
                self._press(None)

    def _press(self, reason: str | None) -> None:
        if reason != self._pressed:
            changed = (reason is None) != (self._pressed is None)
            self._pressed = reason
            if changed:
                now, before = (
                    (self._relieved, self._pressing) if reason is None else (self._pressing, self._relieved)
                )
                now.set()
                before.clear()
                self.on_pressure(reason)


async def publish_on(channel: Channel, publication: Publication, message_id: str) -> None:
    """Publish on a channel with confirms; raises what the library raises."""
    at = publication.timestamp_s
    await channel.basic_publish(
        publication.body,
        exchange=publication.exchange,
        routing_key=publication.routing_key,
        properties=Basic.Properties(
            content_type=publication.content_type,
            content_encoding=publication.content_encoding,
            delivery_mode=2,
            headers=dict(publication.headers),  # type: ignore[arg-type]  # values are AMQP field values
            message_id=message_id,
            message_type=publication.type,
            timestamp=None if at is None else datetime.fromtimestamp(at, UTC),
            app_id=publication.app_id,
            correlation_id=publication.correlation_id,
        ),
        mandatory=True,
        wait=False,
    )


async def _close_bounded(channel: Channel, limit_s: float) -> None:
    """Close a channel; a broker that does not answer even that must not end the watch."""
    try:
        await channel.close(timeout=limit_s)
    except CONNECTION_ERRORS:
        return


async def _is_blocked(transport: Connection) -> bool:
    """Whether the broker sent connection.blocked: then ready() does not return."""
    try:
        await asyncio.wait_for(transport.ready(), 0.05)
    except TimeoutError:
        return True
    return False
