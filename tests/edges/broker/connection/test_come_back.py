"""Fault 98: the return of a broker is noticed by its port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from consumer.edges.broker.connection import come_back
from consumer.edges.broker.connection.come_back import PORTS, is_open, until_back
from tests.support.processes.children import free_port
from tests.support.system.waiting import until


class Port:
    """A port that counts connections."""

    def __init__(self) -> None:
        self.number = free_port()
        self.connections = 0

    @property
    def url(self) -> str:
        """Its AMQP URL."""
        return f"amqp://user:secret@127.0.0.1:{self.number}/vhost"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Take connections meanwhile."""
        server = await asyncio.start_server(self._take, "127.0.0.1", self.number)
        try:
            yield
        finally:
            server.close()
            await server.wait_closed()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()


async def test_a_port_that_opens_is_noticed() -> None:
    """Also where another broker never comes back."""
    port, gone = Port(), Port()
    waiting = asyncio.create_task(until_back([gone.url, port.url], lambda: 0.1))
    await asyncio.wait({waiting}, timeout=0.3)
    assert not waiting.done()

    async with port.open(), asyncio.timeout(30):
        await waiting


async def test_a_port_that_was_open_is_tried_once() -> None:
    """A broker that refuses a login, or a load balancer, is not knocked at for the whole outage."""
    port, gone = Port(), Port()
    async with port.open():
        waiting = asyncio.create_task(until_back([port.url, gone.url], lambda: 0.02))
        await until(lambda: port.connections)
        await asyncio.wait({waiting}, timeout=0.3)
        assert not waiting.done()
        async with gone.open(), asyncio.timeout(30):
            await waiting

    assert port.connections == 1


@pytest.mark.parametrize("scheme", ["amqp", "amqps"])
async def test_a_url_without_a_port_means_the_port_of_its_scheme(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the connection itself."""
    port = Port()
    monkeypatch.setitem(come_back.PORTS, scheme, port.number)
    url = URL(f"{scheme}://127.0.0.1/")

    assert not await is_open(url)
    async with port.open():
        assert await is_open(url)


def test_the_ports_are_those_of_amqp() -> None:
    """Source: the registry of IANA."""
    assert PORTS == {"amqp": 5672, "amqps": 5671}
