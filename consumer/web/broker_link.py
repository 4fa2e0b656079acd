"""One connection to the broker for all requests, opened at its first use and again after it was lost."""

from __future__ import annotations

import asyncio

from aio_pika.abc import AbstractConnection

from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.management.reach import ManagementLogin
from consumer.edges.operate.link import Link, find_broker
from consumer.settings import Settings

CONNECT_S = 5.0
"""Seconds that a request waits for the broker."""


class BrokerLink:
    """Reaches the broker of the settings."""

    def __init__(self, settings: Settings) -> None:
        """Bind to the settings; nothing is connected."""
        self._settings = settings
        self._connection: AbstractConnection | None = None
        self._connecting = asyncio.Lock()

    async def find(self) -> Link:
        """Return options and management login of the broker.

        Raises:
            BrokerUnavailable: no broker is set, and the private one does not run.
        """
        try:
            return await asyncio.to_thread(find_broker, self._settings)
        except ConfigError as error:
            raise BrokerUnavailable(str(error)) from None

    async def management(self) -> ManagementLogin | None:
        """Return the login of the management API; None if its URL is unknown.

        Raises:
            BrokerUnavailable: as :meth:`find`.
        """
        return (await self.find()).management

    async def connection(self) -> AbstractConnection:
        """Return the connection that all requests share; a caller opens a channel of its own on it.

        Raises:
            BrokerUnavailable: the broker is away.
        """
        async with self._connecting:
            if self._connection is None or self._connection.is_closed:
                options = (await self.find()).options
                try:
                    async with asyncio.timeout(CONNECT_S):
                        self._connection = await connect(options, "api")
                except TimeoutError:
                    raise BrokerUnavailable(f"the broker did not answer within {CONNECT_S:g} s") from None
            return self._connection

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await close_quietly(self._connection)
