"""Idle connections to a port without a login: bounded in number and time (fault 87)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from consumer.edges.serve.bounded_connections import BoundedConnections
from tests.support.system.waiting import until

MOST = 8


class Echo(asyncio.Protocol):
    """Sends back all that it receives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Send it back."""
        assert isinstance(self._transport, asyncio.WriteTransport)
        self._transport.write(data)


class Caller:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def asks(self) -> bool:
        """Send a byte and return whether it came back."""
        try:
            self.writer.write(b"x")
            return await self._reader.read(1) == b"x"
        except ConnectionError:
            return False

    def is_cut(self) -> bool:
        """Return whether the server ended it."""
        return self._reader.at_eof() or self._reader.exception() is not None


async def call(port: int) -> Caller:
    """Connect."""
    return Caller(*await asyncio.open_connection("127.0.0.1", port))


@pytest_asyncio.fixture
async def port() -> AsyncIterator[int]:
    """A server with few places."""
    server = await asyncio.get_running_loop().create_server(BoundedConnections(Echo, MOST), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_a_new_caller_is_served_however_many_are_idle(port: int) -> None:
    """The connection that has been silent for longest makes room; one that sent something since stays."""
    first = await call(port)
    idle = [await call(port) for _ in range(MOST - 1)]
    assert await first.asks()

    late = [await call(port) for _ in range(3)]

    assert [await caller.asks() for caller in (*late, first)] == [True] * 4
    await until(lambda: sum(caller.is_cut() for caller in idle) == 3)
    assert [caller.is_cut() for caller in idle] == [True] * 3 + [False] * (MOST - 4)
    for caller in (first, *idle, *late):
        caller.writer.close()


async def test_a_long_idle_connection_is_cut() -> None:
    """After the bound, counted from the last byte that came."""
    server = await asyncio.get_running_loop().create_server(
        BoundedConnections(Echo, MOST, 0.05), "127.0.0.1", 0
    )
    caller = await call(server.sockets[0].getsockname()[1])

    await until(caller.is_cut)

    assert not await caller.asks()
    caller.writer.close()
    server.close()
