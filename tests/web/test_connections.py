"""A client that sends or reads too slowly loses its connection, and keeps nobody else out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx2
import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from consumer.web.connections import BoundedProtocol
from consumer.web.server import RunningApi
from tests.support.web import settings_of

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
LIMIT = 3
BODY = b"x" * 8_000_000  #: more than fits into the buffers of a socket


class Impatient(BoundedProtocol):
    """Limits that a test can wait for."""

    head_s = 0.2
    read_s = 0.2


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a long body at /long, otherwise with a short one."""
    await Response(BODY if scope["path"] == "/long" else b"ok")(scope, receive, send)


@asynccontextmanager
async def listening(protocol: type[BoundedProtocol]) -> AsyncIterator[int]:
    """Serve; give the port."""
    config = uvicorn.Config(answer, http=protocol, lifespan="off", log_config=None, limit_concurrency=LIMIT)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for one in list(state.connections):
            one.transport.abort()
        await server.wait_closed()


@asynccontextmanager
async def connected(
    port: int, **options: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Give a connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ends(reader: asyncio.StreamReader) -> bytes:
    """Return everything until the end of the connection."""
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return b""


@pytest.mark.parametrize("begin", [b"", HEAD])
async def test_a_head_that_does_not_arrive_ends_the_connection(begin: bytes) -> None:
    """Nothing at all is as bad as half of a head."""
    async with listening(Impatient) as port, connected(port) as (reader, writer):
        writer.write(begin)
        assert await ends(reader) == b""


async def test_half_a_head_after_an_answer_ends_the_connection() -> None:
    """The idle time of uvicorn ends with the first byte of the next request."""
    async with listening(Impatient) as port, connected(port) as (reader, writer):
        writer.write(HEAD + b"\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.write(HEAD)
        assert await ends(reader) == b""


async def test_a_client_that_does_not_read_loses_its_answer() -> None:
    """The rest of the answer is given up."""
    async with listening(Impatient) as port, connected(port, limit=1024) as (reader, writer):
        writer.write(HEAD.replace(b"/ ", b"/long ") + b"\r\n")
        await reader.readline()
        await asyncio.sleep(2 * Impatient.read_s)
        assert len(await ends(reader)) < len(BODY)


async def test_idle_connections_make_room() -> None:
    """As many as may be open refuse nobody: the one that has been idle for the longest time is ended."""
    async with listening(BoundedProtocol) as port, AsyncExitStack() as idle:
        first, _ = await idle.enter_async_context(connected(port))
        for _ in range(2 * LIMIT):
            await idle.enter_async_context(connected(port))
        async with httpx2.AsyncClient(trust_env=False) as client:
            found = await client.get(f"http://127.0.0.1:{port}/")
        assert found.status_code == 200
        assert await ends(first) == b""


async def test_the_api_listens_with_these_limits(tmp_path: Path) -> None:
    """A smuggled second request is not answered, and the connection ends."""
    api = await RunningApi.start(settings_of(tmp_path / "home"))
    try:
        one = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n"
        two = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        async with connected(api.port) as (reader, writer):
            writer.write(one + two + one + b"\r\n")
            text = await ends(reader)
    finally:
        await api.stop()

    assert text.startswith(b"HTTP/1.1 400")
    assert text.count(b"HTTP/1.1 ") == 1
