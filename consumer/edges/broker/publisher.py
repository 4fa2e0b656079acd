"""Publish persistent, mandatory, confirmed messages over a separate connection.

The broker may block a publishing connection (memory or disk alarm). Then it reads nothing from the socket,
not even acks, so acks use the other connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

import aiormq
from aio_pika.abc import AbstractConnection
from aiormq.channel import Channel
from aiormq.connection import Connection

from consumer.core.errors import BrokerUnavailable, Refused, Unroutable
from consumer.core.listeners import Listeners
from consumer.edges.broker.connection.connect import (
    CONNECTION_ERRORS,
    AmqpOptions,
    KeepAlive,
    close_reason,
    closed,
    open_channel,
    underlay,
)
from consumer.edges.broker.exchange_channels import ExchangeChannels
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import BrokerReports, Publication

WATCH_S = 0.5  #: interval of the checks for a blocked connection and old confirms


class ConfirmingPublisher:
    """The Publisher port over AMQP.

    Attributes:
        pressure: Receives the reason for back-pressure when it begins, and None when it ends.
    """

    def __init__(
        self,
        options: AmqpOptions,
        keep_alive: KeepAlive,
        random_id: str,
        on_missing: Callable[[], None],
    ) -> None:
        """Prepare; :meth:`run` connects.

        Args:
            options: Time limits of a confirm.
            keep_alive: Keeps the publishing connection.
            random_id: Prefix of the ids of messages.
            on_missing: Called when an exchange, queue or binding is missing.
        """
        self._options = options
        self._keep_alive = keep_alive
        self._observe: BrokerReports = keep_alive.observe
        self._ids = map(f"{random_id}-{{:x}}".format, count())
        self._confirms: Confirms | None = None
        self._pressed: str | None = "not connected yet"
        self._relieved = asyncio.Event()
        self._pressing = asyncio.Event()
        self._pressing.set()
        self._on_missing = on_missing
        self.exchange_channels = ExchangeChannels(self._observe, options.confirm_lost_s, on_missing)
        self.pressure: Listeners[[str | None]] = Listeners()

    async def run(self) -> None:
        """Keep the publishing connection alive, until cancelled."""
        await self._keep_alive.run(self._session)

    def pressed(self) -> str | None:
        """Return why no new attempt should start, or None."""
        return self._pressed

    async def relieved(self) -> None:
        """Return once there is no back-pressure."""
        await self._relieved.wait()

    async def pressed_for(self, limit_s: float) -> None:
        """Return once back-pressure has lasted *limit_s* without a break."""
        while True:
            await self._pressing.wait()
            try:
                await asyncio.wait_for(self._relieved.wait(), limit_s)
            except TimeoutError:
                return

    async def publish(self, publication: Publication) -> None:
        """Return once the broker has confirmed *publication*; see the port for the errors."""
        confirms = self._confirms
        if confirms is None:
            raise BrokerUnavailable("no publishing connection to the broker")
        message_id = publication.message_id or next(self._ids)
        apart = not publication.mandatory or self.exchange_channels.suspects(publication.exchange)
        try:
            waited_s = await (self.exchange_channels if apart else confirms).publish(publication, message_id)
        except aiormq.exceptions.PublishError:
            self._on_missing()
            raise Unroutable(
                f"exchange {publication.exchange}: no queue for {publication.routing_key}"
            ) from None
        except aiormq.exceptions.DeliveryError:
            raise Refused(f"exchange {publication.exchange}: nack for {publication.routing_key}") from None
        except CONNECTION_ERRORS as error:
            raise BrokerUnavailable(f"not confirmed: {error}") from None
        self._observe.publish_confirmed(waited_s)

    async def _session(self, connection: AbstractConnection) -> None:
        transport = underlay(connection)
        self.exchange_channels.connect(connection)
        watch = asyncio.create_task(self._watch(transport))
        try:
            while not transport.is_closed:
                await self._channel_session(connection, transport)
        finally:
            watch.cancel()
            self.exchange_channels.connect(None)
            self._press("not connected")

    async def _channel_session(self, connection: AbstractConnection, transport: Connection) -> None:
        """Serve publishes on one channel until it closes, as after a publish to a missing exchange."""
        channel = await open_channel(connection, confirms=True)
        self._confirms = Confirms(channel)
        self._press(None)
        try:
            await closed(channel, transport)
        finally:
            self._confirms = None
        self._press("the publishing channel closed")
        if not transport.is_closed:
            self.exchange_channels.suspect(await close_reason(channel))
        self._on_missing()
        await asyncio.sleep(self._options.reconnect_first_s)

    async def _watch(self, transport: Connection) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            blocked = await _is_blocked(transport)
            confirms = self._confirms
            oldest_s = 0.0 if confirms is None else confirms.oldest_s()
            if blocked:
                self._press("the broker blocks publishers (memory or disk alarm)")
            elif confirms is not None and oldest_s > self._options.confirm_lost_s:
                self._observe.warned("confirm.lost", age_s=round(oldest_s, 1))
                await _close_bounded(confirms.channel, self._options.confirm_slow_s)
            elif oldest_s > self._options.confirm_slow_s:
                self._press(f"a publish has waited over {self._options.confirm_slow_s:g} s for its confirm")
            elif confirms is not None:
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
                self._observe.pressed(reason)
                self.pressure.notify(reason)


async def _close_bounded(channel: Channel, limit_s: float) -> None:
    """Close a channel; a broker that does not answer must not end the watch."""
    try:
        await channel.close(timeout=limit_s)
    except CONNECTION_ERRORS:
        return


async def _is_blocked(transport: Connection) -> bool:
    """Return whether the broker has sent connection.blocked, after which ready() does not return."""
    try:
        await asyncio.wait_for(transport.ready(), 0.05)
    except TimeoutError:
        return True
    return False
