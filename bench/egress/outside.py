"""Everything that is not this machine: ``python -m bench.egress.outside LOG`` listens on all addresses.

It runs where the whole internet is routed to. Each connection is one line in LOG: address and port that were
connected to. A request for ``/to?URL`` is answered with a redirect there, any other one with 200.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence

PORTS = (80, 443, 6379)
_REDIRECTS = (301, 302, 303, 307, 308)

_count = 0


class Outside:
    """Listens, and writes down where connections came in."""

    def __init__(self, log: str) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._servers: list[asyncio.Server] = []

    async def start(self, ports: Sequence[int] = PORTS) -> None:
        """Listen on every address of both families."""
        for port in ports:
            listener = socket.create_server(
                ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
            )
            self._servers.append(await asyncio.start_server(self._serve, sock=listener))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        global _count  # noqa: PLW0603 - one counter over all connections
        address, port = writer.get_extra_info("sockname")[:2]
        os.write(self._log, f"{address} {port}\n".encode())
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
            target = head.split(b" ")[1].decode()
            if target.startswith("/to?"):
                _count += 1
                status = _REDIRECTS[_count % len(_REDIRECTS)]
                answer = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {target[4:]}\r\n"
            else:
                answer = "HTTP/1.1 200 OK\r\n"
            writer.write(f"{answer}Connection: close\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, TimeoutError, IndexError, asyncio.LimitOverrunError):
            pass  # the connection itself counts
        finally:
            writer.transport.abort()


async def main() -> None:
    """Listen, print a line once ready, serve until killed."""
    await Outside(sys.argv[1]).start()
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
