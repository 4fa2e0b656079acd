"""A fast HTTP/1.1 server that plays many endpoints and remembers every request.

Data flow: bytes -> (Peer) request -> (behaviour, by the path) an answer now, later or never -> one log line.

``async with Receiver() as it: it.url("/ok")``, or
``python -m tests.support.servers.receiver --port 0 --log F``, which prints its port. The first segment of the
path names the behaviour, the query gives its numbers, and the rest only distinguishes endpoints: ``/ok/a``
and ``/ok/b`` are two. All counts are per target.

    /ok                                    200
    /status/503                            that status
    /redirect?to=URL&status=302            that status with ``Location: URL``
    /slow?s=1                              200 after s seconds
    /flaky?share=0.3&status=503            status when :func:`flaky_fails` says so, else 200
    /plan?say=200,503,200&at=T1,T2         by the time, Unix seconds: 503 from T1 to T2, 200 before and after;
                                           with retry_after=S its 429s carry that header
    /lag?s=3600,0.01&at=T1                 200 after so many seconds by the time: 3600 s until T1, then 0.01 s
    /probes?quiet=6                        200 to a request after 6 s without one, 503 to all others
    /gone?after=100                        200 for the first *after* requests, then 410
    /retry-after?s=7&status=503&times=1    status with ``Retry-After: s``, *times* times per id, then 200
    /hold?n=500&status=503&retry_after=7   keeps the first n requests, answers them all at once, then 200
    /hang                                  never answers
    /-/counts                              no endpoint, not logged: the counts so far, as JSON

A line is written before the answer is, with one ``write`` to a file opened for appending, so it outlives any
kill. A request that was never answered is written when its connection ends, with status 0.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import orjson
import uvloop

from tests.support.servers.requests import Received, Target, flaky_fails, parse_target

_REASONS = {
    200: b"OK",
    410: b"Gone",
    429: b"Too Many Requests",
    500: b"Internal Server Error",
    503: b"Unavailable",
}
_MAX_HEAD_BYTES = 65_536


@dataclass(slots=True)
class _Seen:
    """The requests that one target has seen."""

    target: Target
    requests: int = 0
    last: float = 0.0  #: Unix seconds of the last request before
    attempts: Counter[str] = field(default_factory=Counter)
    held: list[Callable[[], None]] = field(default_factory=list)


class Receiver:
    """The server and its memory. An async context manager; or :meth:`start` and :meth:`close`."""

    def __init__(
        self, *, port: int = 0, log: Path | None = None, bodies: bool = False, keep: bool = True
    ) -> None:
        """Prepare; nothing listens yet.

        *port* is on 127.0.0.1, 0 takes a free one; lines are appended to *log*, with whole bodies if
        *bodies*; requests are kept in memory if *keep*, which long runs should not ask for.
        """
        self.port = port
        self.requests: list[Received] = []
        self.counts: Counter[tuple[str, int]] = Counter()  #: (target, status) -> answers
        self.connections = 0  #: accepted so far
        self.open: set[Peer] = set()
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if log else -1
        self._bodies = bodies
        self._keep = keep
        self._seen: dict[str, _Seen] = {}
        self._arrived = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on 127.0.0.1; :attr:`port` is then the real one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Peer(self), "127.0.0.1", self.port, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is None:
            return
        self._server.close()
        for peer in list(self.open):
            peer.abort()
        await self._server.wait_closed()
        while self.open:  # noqa: ASYNC110 - the loop ends each aborted connection in its next rounds
            await asyncio.sleep(0)
        self._server = None
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    async def __aenter__(self) -> Receiver:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def url(self, target: str) -> str:
        """Return the URL of a target such as ``/ok``."""
        return f"http://127.0.0.1:{self.port}{target}"

    def answered(self, target: str) -> dict[int, int]:
        """Return the answers of one target: status -> count."""
        return {status: count for (path, status), count in self.counts.items() if path == target}

    async def arrived(self, count: int) -> None:
        """Wait until *count* requests have come in all, answered or not."""
        if self._arrived < count:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((count, waiter))
            await waiter
            self._waiters.remove((count, waiter))

    def take(self, request: Received, peer: Peer) -> None:
        """Handle one request: answer now, later, or never."""
        if request.target == "/-/counts":
            peer.write(200, b"content-type: application/json\r\n", self._counts_json())
            return
        seen = self._seen.get(request.target)
        if seen is None:
            seen = self._seen[request.target] = _Seen(parse_target(request.target))
        seen.requests += 1
        seen.attempts[request.webhook_id] += 1
        request.attempt = seen.attempts[request.webhook_id]
        if self._keep:
            self.requests.append(request)
        self._arrived += 1
        self._behave(seen, request, peer)
        for count, waiter in self._waiters:
            if count <= self._arrived and not waiter.done():
                waiter.set_result(None)

    def answer(self, request: Received, peer: Peer, status: int, headers: bytes = b"") -> None:
        """Log the request with its answer, then write the answer."""
        request.status = status
        self.settle(request)
        peer.pending = None
        peer.write(status, headers, b"")

    def settle(self, request: Received) -> None:
        """Write the log line."""
        request.end = time.time()
        self.counts[request.target, request.status] += 1
        if self._log >= 0:
            os.write(self._log, request.line(bodies=self._bodies))

    def _behave(self, seen: _Seen, request: Received, peer: Peer) -> None:
        target = seen.target
        match target.behaviour:
            case "status":
                self.answer(request, peer, int(target.segments[0]))
            case "redirect":
                header = f"location: {target.query.get('to', '/ok')}\r\n".encode()
                self.answer(request, peer, int(target.number("status", 302)), header)
            case "slow" | "lag":
                delay_s = float(target.query.get("s", "1").split(",")[target.phase(request.start)])
                status, loop = int(target.number("status", 200)), asyncio.get_running_loop()
                loop.call_later(delay_s, self._answer_late, request, peer, status)
            case "flaky":
                fails = flaky_fails(request.webhook_id, request.attempt, target.number("share", 0.3))
                self.answer(request, peer, int(target.number("status", 503)) if fails else 200)
            case "gone":
                self.answer(request, peer, 200 if seen.requests <= target.number("after", 0) else 410)
            case "retry-after" if request.attempt <= target.number("times", 1):
                header = f"retry-after: {target.query.get('s', '1')}\r\n".encode()
                self.answer(request, peer, int(target.number("status", 503)), header)
            case "probes":
                self._take_probes(seen, request, peer)
            case "plan":
                self._follow_plan(target, request, peer)
            case "hold" if seen.requests <= target.number("n", 1):
                self._hold(seen, request, peer)
            case "hang":
                pass
            case "ok" | "retry-after" | "hold":
                self.answer(request, peer, 200)
            case _:
                self.answer(request, peer, 404)

    def _take_probes(self, seen: _Seen, request: Received, peer: Peer) -> None:
        quiet_s, seen.last = request.start - seen.last, request.start
        self.answer(request, peer, 200 if quiet_s >= seen.target.number("quiet", 1) else 503)

    def _follow_plan(self, target: Target, request: Received, peer: Peer) -> None:
        status = int(target.query["say"].split(",")[target.phase(request.start)])
        wait = target.query.get("retry_after")
        self.answer(
            request, peer, status, f"retry-after: {wait}\r\n".encode() if wait and status == 429 else b""
        )

    def _hold(self, seen: _Seen, request: Received, peer: Peer) -> None:
        target = seen.target
        wait = target.query.get("retry_after")
        header = f"retry-after: {wait}\r\n".encode() if wait else b""
        seen.held.append(lambda: self._answer_late(request, peer, int(target.number("status", 503)), header))
        if seen.requests == target.number("n", 1):
            held, seen.held = seen.held, []
            for release in held:
                release()

    def _answer_late(self, request: Received, peer: Peer, status: int, headers: bytes = b"") -> None:
        """Answer, unless the connection has gone: then the line was written already."""
        if peer.pending is request:
            self.answer(request, peer, status, headers)
            peer.proceed()

    def _counts_json(self) -> bytes:
        table: dict[str, dict[str, int]] = {}
        for (target, status), count in self.counts.items():
            table.setdefault(target, {})[str(status)] = count
        return orjson.dumps({"arrived": self._arrived, "connections": self.connections, "answers": table})


class Peer(asyncio.Protocol):
    """One connection: parses requests one after the other, keeps it alive, one answer at a time."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._number = 0
        self._head: tuple[float, str, str, dict[str, str]] | None = None  #: read, its body still coming
        self._close = False  #: True: the client sent ``Connection: close``
        self.pending: Received | None = None  #: taken and not answered yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's fails isinstance
        self._receiver.connections += 1
        self._number = self._receiver.connections
        self._receiver.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Log the request that was not answered."""
        self._transport = None
        self._receiver.open.discard(self)
        if self.pending is not None:
            request, self.pending = self.pending, None
            self._receiver.settle(request)

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take the bytes; a second request waits until the first is answered."""
        self._buffer = self._buffer + data if self._buffer else data
        if self.pending is None:
            self.proceed()

    def proceed(self) -> None:
        """Take every whole request in the buffer, as long as each is answered at once."""
        while self.pending is None and (self._buffer or self._head) and self._transport is not None:
            if self._head is None and not self._read_head():
                return
            assert self._head is not None
            start, method, target, headers = self._head
            size = int(headers.get("content-length", "0"))
            if len(self._buffer) < size:
                return
            body, self._buffer, self._head = self._buffer[:size], self._buffer[size:], None
            self._close = headers.get("connection", "").lower() == "close"
            self.pending = Received(target, start, headers, method, body, peer=self._number)
            self._receiver.take(self.pending, self)

    def _read_head(self) -> bool:
        """Move the head out of the buffer once it is whole; the request starts now."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                self.abort()
            return False
        self._head = (time.time(), *_parse_head(self._buffer[:end].decode("latin-1")))
        self._buffer = self._buffer[end + 4 :]
        return True

    def write(self, status: int, headers: bytes, body: bytes) -> None:
        """Write an answer."""
        self.pending = None
        if self._transport is None:
            return
        reason = _REASONS.get(status, b"Status")
        length = b"" if status == 204 else b"content-length: %d\r\n" % len(body)
        self._transport.write(b"HTTP/1.1 %d %b\r\n%b%b\r\n%b" % (status, reason, length, headers, body))
        if self._close:
            self._transport.close()


def _parse_head(text: str) -> tuple[str, str, dict[str, str]]:
    lines = text.split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        name = name.lower()
        value = value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return method, target, headers


async def serve(port: int, log: Path | None, *, bodies: bool) -> None:
    """Run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Receiver(port=port, log=log, bodies=bodies, keep=False) as receiver:
        sys.stdout.write(f"{receiver.port}\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """Run a receiver as a process of its own."""
    parser = argparse.ArgumentParser(description="Receive webhooks, answer as the path says, log every one.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--log", type=Path, help="append one JSON line per request to this file")
    parser.add_argument("--bodies", action="store_true", help="log whole bodies in base64")
    options = parser.parse_args()
    uvloop.run(serve(options.port, options.log, bodies=options.bodies))


if __name__ == "__main__":
    main()
