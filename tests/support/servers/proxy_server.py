"""A real egress proxy on loopback: HTTP CONNECT or SOCKS5, login or none, faults from the test.

Data flow: client -> CONNECT host:port or SOCKS5 request -> (ProxyServer) TCP to there -> bytes both ways.
"""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Mapping
from ipaddress import ip_address

from tests.support.servers.raw_server import LoopbackServer

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyServer(LoopbackServer):
    """Opens the tunnels that clients ask for, and remembers them. An async context manager."""

    def __init__(
        self,
        *,
        login: tuple[str, str] | None = None,
        hosts: Mapping[str, str] | None = None,
        says: bytes | None = None,
        reply: int = 0,
    ) -> None:
        """Prepare.

        Args:
            login: User and password that it wants.
            hosts: Where names lead; an address leads to itself.
            says: Its answer to every HTTP request instead of a tunnel; empty: it hangs up.
            reply: SOCKS5 code that it answers instead of a tunnel.
        """
        super().__init__()
        self.asked: list[tuple[str, int]] = []  #: host and port of every tunnel that was wanted
        self.tunnels = 0
        self._login = login
        self.hosts = {} if hosts is None else hosts
        self._says = says
        self._reply = reply

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the request for a tunnel, and open it."""
        client, first = (reader, writer), await reader.readexactly(1)
        behind = await (self._socks(client) if first == b"\x05" else self._http(client, first))
        if behind is not None:
            self.tunnels += 1
            await _both_ways(client, behind)

    async def _http(self, client: Streams, first: bytes) -> Streams | None:
        reader, writer = client
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode()
        method, authority, _ = head.split("\r\n")[0].split(" ")
        host, _, port = authority.rpartition(":")
        if self._login is not None:
            basic = base64.b64encode(":".join(self._login).encode()).decode()
            if f"Proxy-Authorization: Basic {basic}\r\n" not in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return None
        self.asked.append((host.strip("[]"), int(port)))
        if self._says is not None or method != "CONNECT":
            writer.write(self._says or b"")
            await writer.drain()
            return None
        behind = await self._open(host.strip("[]"), int(port))
        if behind is None:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno")
            return None
        for piece in (b"HTTP/1.1 200 Connection", b" established\r\nVia: x\r", b"\n\r\n"):  # not in one piece
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return behind

    async def _socks(self, client: Streams) -> Streams | None:
        """Source: RFC 1928, RFC 1929."""
        reader, writer = client
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        wanted = 0 if self._login is None else 2
        if wanted not in methods:
            writer.write(b"\x05\xff")
            return None
        writer.write(bytes((5, wanted)))
        if self._login is not None and not await self._logged_in(client):
            return None
        host, port = await _socks_target(reader)
        self.asked.append((host, port))
        behind = None if self._reply else await self._open(host, port)
        code = self._reply or (0 if behind else 5)
        writer.write(bytes((5, code, 0, 1)) + b"\0" * 6)
        await writer.drain()
        return behind

    async def _logged_in(self, client: Streams) -> bool:
        reader, writer = client
        await reader.readexactly(1)
        user = await reader.readexactly((await reader.readexactly(1))[0])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        good = (user.decode(), password.decode()) == self._login
        writer.write(b"\x01\x00" if good else b"\x01\x01")
        await writer.drain()
        return good

    async def _open(self, host: str, port: int) -> Streams | None:
        try:
            return await asyncio.open_connection(self.hosts.get(host, host), port)
        except OSError:
            return None


async def _socks_target(reader: asyncio.StreamReader) -> tuple[str, int]:
    _, _, _, kind = await reader.readexactly(4)
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    else:
        host = str(ip_address(await reader.readexactly(4 if kind == 1 else 16)))
    (port,) = struct.unpack("!H", await reader.readexactly(2))
    return host, port


async def _both_ways(client: Streams, behind: Streams) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    try:
        await asyncio.gather(pump(client[0], behind[1]), pump(behind[0], client[1]))
    finally:
        behind[1].transport.abort()
