"""One connection to the broker for all requests, opened at its first use and again after it was lost."""

from __future__ import annotations

import asyncio

from aio_pika.abc import AbstractConnection

from consumer.core.errors import BrokerUnavailable, ConfigError
from consumer.edges.broker.connection.connect import close_quietly, connect
from consumer.edges.management.reach import ManagementLogin
from consumer.edges.operate.link import Link, find_broker
from consumer.edges.operate.workers import WorkersSeen, count_workers
from consumer.settings import Settings
from topology.names import Names

CONNECT_S = 5.0
"""Seconds that a request waits for the broker."""


class BrokerLink:
    """Reaches the broker of the settings."""

    def __init__(self, settings: Settings, connect_s: float = CONNECT_S) -> None:
        """Bind to the settings; nothing is connected.

        Args:
            settings: Name the broker.
            connect_s: Seconds that a request waits for it.
        """
        self._settings = settings
        self._connect_s = connect_s
        self._connection: AbstractConnection | None = None
        self._opening: asyncio.Task[AbstractConnection] | None = None

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
        if self._connection is not None and not self._connection.is_closed:
            return self._connection
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="api broker")
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    async def workers(self) -> WorkersSeen | None:
        """Return the workers that the broker knows; None if it cannot be asked."""
        try:
            return await count_workers(await self.connection(), Names(self._settings.topology.prefix))
        except BrokerUnavailable:
            return None

    async def _open(self) -> AbstractConnection:
        """Connect, for all requests that wait now.

        Raises:
            BrokerUnavailable: the broker is away.
        """
        options = (await self.find()).options
        try:
            async with asyncio.timeout(self._connect_s):
                return await connect(options, "api")
        except TimeoutError:
            raise BrokerUnavailable(f"the broker did not answer within {self._connect_s:g} s") from None

    def _opened(self, opening: asyncio.Task[AbstractConnection]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._connection = opening.result()

    async def close(self) -> None:
        """Close the connection."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._connection is not None:
            await close_quietly(self._connection)
