"""Many healthy hosts, each on a loopback address of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from tests.support.processes.children import free_port

HOST_S = 1.0  #: seconds until a host answers, so that many connections are open at once
PORT = free_port()  #: of every host
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def addresses(hosts: int) -> Sequence[str]:
    """Return that many loopback addresses."""
    return [f"127.0.{number // 200 + 1}.{number % 200 + 1}" for number in range(hosts)]


@dataclass(slots=True)
class Hosts:
    """Healthy hosts: each answers 200 after :data:`HOST_S`, and keeps its connections."""

    hosts: int
    answered: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve inside the block."""
        async with await asyncio.start_server(self._answer, list(addresses(self.hosts)), PORT):
            yield

    def url(self, address: str) -> str:
        """Return the URL of one host."""
        return f"http://{address}:{PORT}/"

    def has_answered(self, wanted: int) -> bool:
        """Return whether at least *wanted* requests were answered."""
        return self.answered >= wanted

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                await asyncio.sleep(HOST_S)
                writer.write(ANSWER)
                self.answered += 1
        writer.close()
