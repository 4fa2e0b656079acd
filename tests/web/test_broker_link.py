"""All requests that need the broker wait for one connection, not one after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from consumer.core.errors import BrokerUnavailable
from consumer.settings import load_settings
from consumer.web.broker_link import BrokerLink


async def test_a_silent_broker_costs_all_requests_one_wait(tmp_path: Path) -> None:
    """It accepts connections and says nothing; five requests open one, and each learns that it is away."""
    opened = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    environ = {"LEVERET_HOME": str(tmp_path), "LEVERET_AMQP_URL": f"amqp://a:b@127.0.0.1:{port}/"}
    link = BrokerLink(load_settings(environ), connect_s=0.3)
    try:
        results = await asyncio.gather(*(link.connection() for _ in range(5)), return_exceptions=True)
    finally:
        await link.close()
        server.close()

    assert [type(each) for each in results] == [BrokerUnavailable] * 5
    assert opened == 1


async def test_a_request_that_leaves_does_not_end_the_wait_of_others(tmp_path: Path) -> None:
    """Its cancellation stays its own; a close ends the attempt."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    environ = {"LEVERET_HOME": str(tmp_path), "LEVERET_AMQP_URL": f"amqp://a:b@127.0.0.1:{port}/"}
    link = BrokerLink(load_settings(environ), connect_s=0.3)
    leaving, staying = (asyncio.create_task(link.connection()) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    try:
        with pytest.raises(BrokerUnavailable):
            await staying
    finally:
        await link.close()
        server.close()

    assert leaving.cancelled()
