"""Publish on a channel of its own per exchange, so that an exchange which is missing closes no other channel.

Data flow: what nobody owes (operational events, the talk between workers), and what goes to an exchange that
was missing a moment ago -> a channel for that exchange -> confirmed; after a 404 a pause that grows.

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
"""Source: the words of RabbitMQ 3.10.8 and 4.0.5."""


@dataclass(slots=True)
class _Way:
    """The way to one exchange."""

    confirms: Confirms | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    pause_s: float = 0.0  #: 0: nothing is known against the exchange
    until: float = 0.0  #: loop time before which nothing is published to it

    async def opened(self, connection: AbstractConnection | None) -> Confirms:
        """Return the channel for the exchange, opened anew where it closed.

        Raises:
            BrokerUnavailable: there is no connection.
        """
        async with self.opening:
            if self.confirms is None or self.confirms.channel.is_closed:
                if connection is None:
                    raise BrokerUnavailable("no publishing connection to the broker")
                self.confirms = Confirms(await open_channel(connection, confirms=True))
            return self.confirms

    def forget_channel(self) -> None:
        """Open another channel for the next publish."""
        self.confirms = None

    def found(self) -> None:
        """The exchange is there."""
        self.pause_s = 0.0

    def pause(self, now: float) -> None:
        """The exchange is missing: wait longer than the last time; *now* in loop time."""
        self.pause_s = min(max(FIRST_PAUSE_S, 2 * self.pause_s), LONGEST_PAUSE_S)
        self.until = now + self.pause_s

    def end_pause(self) -> None:
        """Let the next publish try at once."""
        self.until = 0.0


class Aside:
    """The side channels of one publishing connection."""

    def __init__(self, observe: BrokerReports, limit_s: float, on_missing: Callable[[], None]) -> None:
        """Bind to nothing yet.

        Args:
            observe: Is told of what failed.
            limit_s: A confirm that takes longer is lost: the side channel is opened anew.
            on_missing: Called for each exchange that is not there: it may be declared again.
        """
        self._observe = observe
        self._limit_s = limit_s
        self._connection: AbstractConnection | None = None
        self._ways: defaultdict[str, _Way] = defaultdict(_Way)
        self._on_missing = on_missing

    def connect(self, connection: AbstractConnection | None) -> None:
        """Use this connection from now on; None: there is none."""
        self._connection = connection
        for way in self._ways.values():
            way.forget_channel()

    def suspect(self, close_text: str) -> None:
        """Take note of why a channel closed: an exchange that it names is reached by its own channel now."""
        found = _MISSING.search(close_text)
        if found is not None:
            self._pause(found[1], close_text)

    def suspects(self, exchange: str) -> bool:
        """Say whether *exchange* was missing when it was last published to."""
        return exchange in self._ways and self._ways[exchange].pause_s > 0

    def look_again(self) -> None:
        """Everything was declared: the pauses are over."""
        for way in self._ways.values():
            way.end_pause()

    async def publish(self, publication: Publication, message_id: str) -> float:
        """Publish, and return the seconds until the confirm.

        Raises:
            BrokerUnavailable: there is no connection, or the exchange is missing; it is tried again once its
                pause is over.
            PublishError, DeliveryError: as :meth:`Confirms.publish`.
        """
        exchange = publication.exchange
        way = self._ways[exchange]
        loop = asyncio.get_running_loop()
        if loop.time() < way.until:
            raise BrokerUnavailable(f"exchange {exchange} is missing; see `leveret topology check`")
        confirms: Confirms | None = None
        try:
            async with asyncio.timeout(self._limit_s):
                confirms = await way.opened(self._connection)
                waited_s = await confirms.publish(publication, message_id)
        except DeliveryError:  # returned, or a nack: the exchange is there
            way.found()
            raise
        except CONNECTION_ERRORS as error:
            await self._failed(way, confirms)
            raise BrokerUnavailable(f"not confirmed by {exchange}: {error or type(error).__name__}") from None
        way.found()
        return waited_s

    async def _failed(self, way: _Way, confirms: Confirms | None) -> None:
        """Learn why a publish failed: only an exchange that is missing is left alone for a while."""
        if confirms is None or way.confirms is not confirms:
            return
        way.forget_channel()
        if not confirms.channel.is_closed:
            with suppress(*CONNECTION_ERRORS):
                await confirms.channel.close(timeout=self._limit_s)
            return
        self.suspect(await close_reason(confirms.channel))

    def _pause(self, exchange: str, text: str) -> None:
        way = self._ways[exchange]
        way.pause(asyncio.get_running_loop().time())
        self._observe.publish_failed(BrokerUnavailable(text), exchange, way.pause_s)
        self._on_missing()
