"""Publish on a separate channel for each exchange, so that a missing exchange closes no other channel.

Data flow: messages that are not mandatory (operational events, control messages of workers), and messages to
a recently missing exchange -> the channel of that exchange -> confirmed; after a 404 a growing pause.

Source: AMQP 0-9-1, ``basic.publish`` (an exchange that does not exist closes the channel with 404).
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aio_pika.abc import AbstractConnection
from aiormq.exceptions import DeliveryError

from consumer.core.errors import BrokerUnavailable
from consumer.edges.broker.connection.connect import CONNECTION_ERRORS, close_reason, open_channel
from consumer.edges.broker.wire.confirmed import Confirms
from consumer.ports import BrokerReports, Publication

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 5.0

_MISSING = re.compile(r"no exchange '([^']+)' in vhost")
"""Source: the error texts of RabbitMQ 3.10.8 and 4.0.5."""


@dataclass(slots=True)
class _SideChannel:
    """The channel for one exchange."""

    confirms: Confirms | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    pause_s: float = 0.0  #: last pause; 0 unless the exchange was missing
    until: float = 0.0  #: loop time before which no message is published to it

    async def opened(self, connection: Callable[[], AbstractConnection | None]) -> Confirms:
        """Return the channel for the exchange, and open it again if it is closed.

        Args:
            connection: Returns the present connection, which may be another one after the wait for the lock.

        Raises:
            BrokerUnavailable: there is no connection.
        """
        async with self.opening:
            if self.confirms is None or self.confirms.channel.is_closed:
                present = connection()
                if present is None:
                    raise BrokerUnavailable("no publishing connection to the broker")
                self.confirms = Confirms(await open_channel(present, confirms=True))
            return self.confirms

    def forget_channel(self) -> None:
        """Make the next publish open another channel."""
        self.confirms = None

    def found(self) -> None:
        """Note that the exchange exists."""
        self.pause_s = 0.0

    def pause(self, now: float) -> None:
        """Note at loop time *now* that the exchange is missing, and pause for longer than the last time."""
        self.pause_s = min(max(FIRST_PAUSE_S, 2 * self.pause_s), LONGEST_PAUSE_S)
        self.until = now + self.pause_s

    def end_pause(self) -> None:
        """Let the next publish try at once."""
        self.until = 0.0


class ExchangeChannels:
    """The side channels of one publishing connection."""

    def __init__(self, observe: BrokerReports, limit_s: float, on_missing: Callable[[], None]) -> None:
        """Begin without a connection.

        Args:
            observe: Reports failures.
            limit_s: Longest wait for a confirm; after that the side channel is replaced.
            on_missing: Called for each missing exchange, which may be declared again.
        """
        self._observe = observe
        self._limit_s = limit_s
        self._connection: AbstractConnection | None = None
        self._channels: defaultdict[str, _SideChannel] = defaultdict(_SideChannel)
        self._on_missing = on_missing

    def connect(self, connection: AbstractConnection | None) -> None:
        """Use *connection* from now on; None means no connection."""
        self._connection = connection
        for side in self._channels.values():
            side.forget_channel()

    def suspect(self, close_text: str) -> None:
        """Read why a channel closed; a missing exchange gets its own channel from now on."""
        found = _MISSING.search(close_text)
        if found is not None:
            self._pause(found[1], close_text)

    def suspects(self, exchange: str) -> bool:
        """Return whether *exchange* was missing at its last publish."""
        return exchange in self._channels and self._channels[exchange].pause_s > 0

    def look_again(self) -> None:
        """End all pauses, as everything was declared."""
        for side in self._channels.values():
            side.end_pause()

    async def publish(self, publication: Publication, message_id: str) -> float:
        """Publish, and return the seconds until the confirm.

        Raises:
            BrokerUnavailable: there is no connection, or the exchange is missing; publishes are tried again
                after its pause.
            PublishError, DeliveryError: as :meth:`Confirms.publish`.
        """
        exchange = publication.exchange
        side = self._channels[exchange]
        loop = asyncio.get_running_loop()
        if loop.time() < side.until:
            raise BrokerUnavailable(f"exchange {exchange} is missing; see `leveret topology check`")
        confirms: Confirms | None = None
        try:
            async with asyncio.timeout(self._limit_s):
                confirms = await side.opened(lambda: self._connection)
                waited_s = await confirms.publish(publication, message_id)
        except DeliveryError:  # returned, or a nack: the exchange exists
            side.found()
            raise
        except CONNECTION_ERRORS as error:
            await self._failed(side, confirms)
            raise BrokerUnavailable(f"not confirmed by {exchange}: {error or type(error).__name__}") from None
        side.found()
        return waited_s

    async def _failed(self, side: _SideChannel, confirms: Confirms | None) -> None:
        """Find out why a publish failed; only a missing exchange gets a pause."""
        if confirms is None or side.confirms is not confirms:
            return
        side.forget_channel()
        if not confirms.channel.is_closed:
            with suppress(*CONNECTION_ERRORS):
                await confirms.channel.close(timeout=self._limit_s)
            return
        self.suspect(await close_reason(confirms.channel))

    def _pause(self, exchange: str, text: str) -> None:
        side = self._channels[exchange]
        side.pause(asyncio.get_running_loop().time())
        self._observe.publish_failed(BrokerUnavailable(text), exchange, side.pause_s)
        self._on_missing()
