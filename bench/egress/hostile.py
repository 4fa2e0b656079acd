"""Receivers that strangers might run, in one process: ``python -m bench.egress.hostile`` prints their ports.

Each kind has a port of its own:

    healthy     204, connection kept
    reset       an RST instead of an answer
    slow        200 after 50 ms, every 50th request never
    big         200 and 10 MB of body, as fast as it is read
    drip        a head that comes byte by byte and never ends
    deaf        accepts and never reads
    mute        accepts, reads and never answers: a TLS handshake stalls
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping

import uvloop

SLOW_S = 0.05
NEVER_EVERY = 50
BIG_BYTES = 10_000_000
DRIP_S = 0.02

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_counted = 0
_held: list[asyncio.StreamWriter] = []


async def read_request(reader: asyncio.StreamReader) -> None:
    """Read one request with its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0")
    await reader.readexactly(size)


async def healthy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take every request."""
    while True:
        await read_request(reader)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Cut the connection with an RST."""
    await read_request(reader)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take its time, and sometimes all of it."""
    global _counted  # noqa: PLW0603 - one counter over all connections of the process
    while True:
        await read_request(reader)
        _counted += 1
        if _counted % NEVER_EVERY == 0:
            await reader.read()
            return
        await asyncio.sleep(SLOW_S)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def big(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with more than anybody wants."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BIG_BYTES)
    for _ in range(BIG_BYTES // 65_536):
        writer.write(bytes(65_536))
        await writer.drain()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a head byte by byte."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"y")
        await writer.drain()
        await asyncio.sleep(DRIP_S)


async def deaf(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Let the window fill up."""
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # both loops' transports read too
    _held.append(writer)  # the loop itself lets go of a transport that does not read
    await asyncio.Event().wait()


async def mute(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    while await reader.read(65_536):
        pass


KINDS: Mapping[str, Talk] = {
    "healthy": healthy,
    "reset": reset,
    "slow": slow,
    "big": big,
    "drip": drip,
    "deaf": deaf,
    "mute": mute,
}


def served(talk: Talk) -> Talk:
    """Return *talk* for a server; the connection is cut at its end, even if the client sends more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.transport.abort()

    return serve


async def main() -> None:
    """Listen, print the ports as JSON, serve until killed."""
    ports: dict[str, int] = {}
    for name, talk in KINDS.items():
        server = await asyncio.start_server(served(talk), "127.0.0.1", 0, backlog=2048)
        ports[name] = server.sockets[0].getsockname()[1]
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
