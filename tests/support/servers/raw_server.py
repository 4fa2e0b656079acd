"""Servers that send any bytes, for clients that must survive them.

Data flow: client -> (RawServer) the test's own talk with reader and writer; all that it read is kept.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeAlias

Talk: TypeAlias = Callable[["Call"], Awaitable[None]]


class Call:
    """One accepted connection."""

    def __init__(self, server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._server = server

    async def request(self) -> bytes:
        """Read one whole request and keep it; raises IncompleteReadError when the client leaves."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        whole = head + await self.reader.readexactly(size)
        self._server.requests.append(whole)
        return whole

    async def say(self, data: bytes) -> None:
        """Write and flush."""
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the client has closed its side, reading until then."""
        while await self.reader.read(65_536):
            pass


class LoopbackServer:
    """Listens on a free port of loopback; its connections end with it. An async context manager."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._host = host
        self.connections = 0  #: accepted so far
        self.port = 0
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk on one connection; it is cut off afterwards."""
        raise NotImplementedError

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._until_left(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _until_left(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.transport.abort()


class RawServer(LoopbackServer):
    """Runs the talk of the test on each connection."""

    def __init__(self, talk: Talk, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        super().__init__(tls=tls, host=host)
        self.requests: list[bytes] = []
        self.open = 0  #: connections whose talk is running
        self._talk = talk

    def url(self, path: str = "/hook", *, host: str = "127.0.0.1") -> str:
        """Return a URL of this server."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run the talk on one connection."""
        self.open += 1
        try:
            await self._talk(Call(self, reader, writer))
        finally:
            self.open -= 1


def says(answer: bytes, *, close: bool = False) -> Talk:
    """Return a talk that answers every request with the same bytes, and then closes if *close*."""

    async def talk(call: Call) -> None:
        while True:
            await call.request()
            await call.say(answer)
            if close:
                call.writer.close()
                await call.writer.wait_closed()
                return

    return talk


def ok(*, body: bytes = b"", headers: bytes = b"", status: bytes = b"200 OK") -> bytes:
    """Return one well-formed response."""
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body)


async def eventually(condition: Callable[[], bool], *, within_s: float = 100.0) -> None:
    """Wait until *condition* holds; look between the loop's rounds, and less often after a while."""
    looks = 0
    async with asyncio.timeout(within_s):
        while not condition():
            looks += 1
            await asyncio.sleep(0.001 if looks < 100 else 0.02)


def open_files() -> int:
    """Return how many file descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))
