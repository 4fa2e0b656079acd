"""Kinds of answers that servers give, the documented outcome of each, and a server for each.

Data flow: the first request of a server -> its kind's answer, piece by piece; every other request, on
any connection -> 200 with that request's own ``webhook-id`` as body, which identifies the answer.

docs/receive.md documents the outcomes. Source: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

PAUSE_S = 0.03  #: between two pieces: they come in segments of their own

OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = b"Content-Length: 0\r\n\r\n"
UNASKED = b"HTTP/1.1 500 Unasked\r\n" + EMPTY


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of answer."""

    name: str
    pieces: Sequence[bytes]  #: as they are written, with a pause between
    outcome: str = "ok"  #: a value of :class:`consumer.core.model.OutcomeKind`
    status: int | None = 200  #: None: there is no status
    close: bool = False  #: the server closes behind the last piece


def _lines(count: int, line: bytes) -> bytes:
    return OK + line * count + EMPTY


def _delivered(name: str, *pieces: bytes, status: int = 200, close: bool = False) -> Kind:
    return Kind(name, pieces, status=status, close=close)


def _refused(name: str, *pieces: bytes, outcome: str = "protocol", close: bool = False) -> Kind:
    return Kind(name, pieces, outcome, None, close)


_DELIVERED = (
    _delivered("a length", OK + b"Content-Length: 2\r\n\r\nok"),
    _delivered("chunks", OK + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n", b"0\r\nX: y\r\n\r\n"),
    _delivered("no length, then a close", OK + b"\r\nok", close=True),
    _delivered("HTTP/1.0", b"HTTP/1.0 200 OK\r\n\r\nok", close=True),
    _delivered("HTTP/1.0, kept", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + EMPTY),
    _delivered("HTTP/1.2", b"HTTP/1.2 200 OK\r\n" + EMPTY),
    _delivered("no reason", b"HTTP/1.1 200\r\n" + EMPTY),
    _delivered("299", b"HTTP/1.1 299 Fine\r\n" + EMPTY, status=299),
    _delivered("lines without CR", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
    _delivered("empty lines before", b"\r\n\r\n" + OK + EMPTY),
    _delivered("lines that are no headers", OK + b"what\r\nX : y\r\n  folded\r\n: z\r\n" + EMPTY),
    _delivered("204", b"HTTP/1.1 204 No Content\r\n\r\n", status=204),
    _delivered(
        "204 with chunks",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        status=204,
    ),
    _delivered("204 with a body", b"HTTP/1.1 204 No Content\r\n\r\n{}", status=204),
    _delivered("204 with a body later", b"HTTP/1.1 204 No Content\r\n\r\n", b"{}", status=204),
    _delivered("204 with a length", b"HTTP/1.1 204 None\r\nContent-Length: 2\r\n\r\n", b"{}", status=204),
    _delivered("a malformed chunk", OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n"),
    _delivered("a chunk without end", OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"F" * 18 + b"\r\nabc"),
    _delivered("an unknown coding", OK + b"Transfer-Encoding: gzip, chunked\r\n\r\nabc", close=True),
    _delivered("a body that breaks off", OK + b"Content-Length: 100\r\n\r\nabc", close=True),
    _delivered("chunks that break off", OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", close=True),
    _delivered("twice the same length", OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
    _delivered("more than its length", OK + b"Content-Length: 2\r\n\r\nokay"),
    _delivered("two answers", OK + EMPTY + UNASKED),
    _delivered("a second answer later", OK + EMPTY, UNASKED),
    _delivered("half an answer later", OK + EMPTY, UNASKED[:9]),
    _delivered("100 first", b"HTTP/1.1 100 Continue\r\n\r\n" + OK + EMPTY),
    _delivered(
        "102 and 103 first",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 20,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\n" + EMPTY,
        status=201,
    ),
    _delivered("a header of 9,000 bytes", OK + b"X: " + b"y" * 9_000 + b"\r\n" + EMPTY),
    _delivered("150 headers", _lines(150, b"X-Some-Header: value\r\n")),
    _delivered("a head of 64 KiB", OK + b"X: " + b"y" * (65_536 - 43) + b"\r\n" + EMPTY),
    _delivered("a head in pieces", b"HT", b"TP/1.1 200 ", b"OK\r", b"\nContent-Length: 0\r\n\r", b"\n"),
)

_FAILED = (
    _refused("HTTP/0.9", b"HTTP/0.9 200 OK\r\n" + EMPTY),
    _refused("HTTP/2.0", b"HTTP/2.0 200 OK\r\n" + EMPTY),
    _refused("lower case", b"http/1.1 200 OK\r\n" + EMPTY),
    _refused("no HTTP", b"220 mail.example ESMTP\r\n"),
    _refused("status 000", b"HTTP/1.1 000 Nothing\r\n\r\n" + OK + EMPTY),
    _refused("status 099", b"HTTP/1.1 099 Nothing\r\n\r\n" + OK + EMPTY),
    _refused("status 1000", b"HTTP/1.1 1000 OK\r\n" + EMPTY),
    _refused("status 20x", b"HTTP/1.1 20x OK\r\n" + EMPTY),
    Kind("status 600", (b"HTTP/1.1 600 Strange\r\n" + EMPTY,), "protocol", 600),
    _refused("101", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    _refused("1xx without end", b"HTTP/1.1 102 Processing\r\n\r\n" * 1_000),
    _refused("a length and chunks", OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    _refused("a negative length", OK + b"Content-Length: -5\r\n\r\n"),
    _refused("two lengths", OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde"),
    _refused("a head of 70 kB", OK + b"X: " + b"y" * 70_000 + b"\r\n" + EMPTY, outcome="too_large"),
    _refused("10,000 headers", _lines(10_000, b"X:\r\n"), outcome="too_large"),
    _refused("half a head", b"HTTP/1.1 200 OK\r\nContent-", outcome="reset", close=True),
    _refused("no answer", outcome="reset", close=True),
    Kind(
        "503 and a malformed chunk",
        (b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",),
        "http_5xx",
        503,
    ),
)

KINDS: Sequence[Kind] = (*_DELIVERED, *_FAILED)


class AnswerServer:
    """Serves one kind on a port of its own. An async context manager."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.port = 0
        self.seen: Counter[str] = Counter()  #: requests, by webhook-id
        self.said = asyncio.Event()  #: set once the answer and all bytes after it are written
        self._first = True
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> AnswerServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
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

    @property
    def url(self) -> str:
        """The URL for webhooks."""
        return f"http://127.0.0.1:{self.port}/hook"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer.transport), contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                request = await _read_request(reader)
                self.seen[request] += 1
                if not self._first:
                    writer.write(OK + b"Content-Length: %d\r\n\r\n%b" % (len(request), request.encode()))
                    continue
                self._first = False
                await self._say(writer)
                if self.kind.close:
                    return

    async def _say(self, writer: asyncio.StreamWriter) -> None:
        try:
            for number, piece in enumerate(self.kind.pieces):
                if number:
                    await asyncio.sleep(PAUSE_S)
                writer.write(piece)
                await writer.drain()
        finally:
            self.said.set()


async def _read_request(reader: asyncio.StreamReader) -> str:
    """Read one request; return its webhook-id."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    await reader.readexactly(int(fields.get(b"content-length", b"0")))
    return fields.get(b"webhook-id", b"").decode()
