"""Run a hostile name server and a hostile HTTP server, in a process of their own.

Run by :class:`Servers` as ``python -m bench.hostile.hosts``; it prints two ports, of DNS and of HTTP.

    many.hostile.test                      4,000 addresses, over TCP
    /heads/lines | cookies | retry-after   a 200 or 503 with 60 kB of head, each of its kind
    /heads/pipelined                       a 200, and 13,000 further answers in the same segments
    /heads/interim                         14,000 answers of 100 before a 200
    /heads/ok                              a plain 200
"""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes.children import free_port, python_env, spawn, stop, wait_until

MANY = "many.hostile.test"
ADDRESSES = 4_000  #: 64 kB, the most that one answer holds
HEAD_BYTES = 60_000
START_S = 15.0

_DATES = ", ".join(["Fri, 31 Dec 1999 23:59:59 GMT"] * 250)


def heads() -> Mapping[str, bytes]:
    """Return the answers by path."""
    lines = "".join(f"X-{number:04d}: {'v' * 50}\r\n" for number in range(HEAD_BYTES // 60))
    cookies = "".join(f"Set-Cookie: c{number:04d}={'v' * 40}\r\n" for number in range(HEAD_BYTES // 60))
    waits = "".join(f"Retry-After: {_DATES}\r\n" for _ in range(HEAD_BYTES // len(_DATES)))
    return {
        "/heads/lines": _answer("200 OK", lines),
        "/heads/cookies": _answer("200 OK", cookies),
        "/heads/retry-after": _answer("503 Unavailable", waits),
        "/heads/pipelined": b"HTTP/1.1 204 No\r\n\r\n" * 13_000,
        "/heads/interim": b"HTTP/1.1 100 Go\r\n\r\n" * 13_000 + _answer("200 OK", ""),
        "/heads/ok": _answer("200 OK", ""),
    }


def _answer(status: str, lines: str) -> bytes:
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: 0\r\n\r\n".encode()


class Servers:
    """Both servers as a child process. An async context manager."""

    def __init__(self, folder: Path) -> None:
        self._out = folder / "hostile-servers.out"
        self._process: subprocess.Popen[bytes] | None = None
        self.name_server = ""  #: ``ADDRESS:PORT``
        self.answers = ""  #: ``http://ADDRESS:PORT``

    async def __aenter__(self) -> Servers:
        argv = [sys.executable, "-m", "bench.hostile.hosts"]
        self._out.unlink(missing_ok=True)  # it begins with the ports of earlier servers
        self._process = spawn(argv, log=self._out, env=python_env())
        if not await wait_until(lambda: self._out.read_text().endswith("\n"), START_S):
            raise TimeoutError("the hostile servers did not start")
        dns, http = self._out.read_text().split()[:2]
        self.name_server, self.answers = f"127.0.0.1:{dns}", f"http://127.0.0.1:{http}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(self._process)


# the child process


def dns_answer(question: bytes) -> bytes:
    """Return the answer to a question: 4,000 addresses for :data:`MANY`, nothing for other types."""
    end = question.index(b"\0", 12) + 5
    asked, kind = question[12:end], question[end - 4 : end - 2]
    is_many = kind == b"\0\x01" and MANY.split(".", maxsplit=1)[0].encode() in asked
    count = ADDRESSES if is_many else 0
    record = struct.Struct("!HHHIHBBBB")
    records = b"".join(
        record.pack(0xC00C, 1, 1, 0, 4, 127, number >> 16, number >> 8 & 255, number & 255)
        for number in range(1, count + 1)
    )
    head = question[:2] + struct.pack("!HHHHH", 0x8580, 1, count, 0, 0)
    return head + asked + records


class _Udp(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = dns_answer(data)
        if len(answer) > 1_200:  # cut: the client comes back over TCP
            end = data.index(b"\0", 12) + 5
            answer = data[:2] + struct.pack("!HHHHH", 0x8780, 1, 0, 0, 0) + data[12:end]
        self._transport.sendto(answer, addr)  # type: ignore[attr-defined]  # a datagram transport


async def _serve_dns(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
            answer = dns_answer(await reader.readexactly(size))
            writer.write(struct.pack("!H", len(answer)) + answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.transport.abort()


async def _serve() -> None:
    dns_port, http_port, answers = free_port(), free_port(), heads()

    async def serve_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lower = head.lower()
                size = int(lower.partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
                await reader.readexactly(size)
                path = head.split(b" ")[1].decode("latin-1")
                writer.write(answers.get(path, answers["/heads/ok"]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()

    loop = asyncio.get_running_loop()
    dns = await asyncio.start_server(_serve_dns, "127.0.0.1", dns_port)
    http = await asyncio.start_server(serve_http, "127.0.0.1", http_port)
    await loop.create_datagram_endpoint(_Udp, ("127.0.0.1", dns_port))
    print(dns_port, http_port, flush=True)
    async with dns, http:
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
