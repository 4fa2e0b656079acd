"""One connection as httpcore2 wants it: bytes in, bytes out, and whether it may be used again.

Data flow: (Dialer) transport and Pipe -> httpcore2's HTTP/1.1 connection reads and writes -> aborted or kept.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from typing import Any

import httpcore2

from consumer.core.model import Kind
from consumer.edges.http.outcomes import AttemptFailed

_PAUSE_BYTES = 65_536  #: unread bytes from which the transport stops reading
_JOIN_BYTES = 65_536  #: a piece up to this size waits for what is written behind it

_BEGINNING = b"HTTP/1."

#: The server closed its side; 0 where the system cannot tell. Source: Linux poll(2).
_PEER_GONE: int = getattr(select, "POLLRDHUP", 0)


class Pipe(asyncio.Protocol):
    """The protocol of a connection: keeps what came until it is read."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ended = False
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport  # type: ignore[assignment]  # a stream's; uvloop's is none by isinstance

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._buffer += data
        if len(self._buffer) >= _PAUSE_BYTES and self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Called by the loop. A server that stops sending has closed."""
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._ended, self._fault = True, exc
        self._wake()

    async def read(self, most: int) -> bytes:
        """Return what came, at most *most* bytes; nothing once the server has closed.

        Raises:
            httpcore2.ReadError: the connection broke.
            AttemptFailed: the server ended it with a TLS alert, as one that wants a client certificate does.
        """
        while not self._buffer and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if not self._buffer and isinstance(self._fault, ssl.SSLError):
            raise AttemptFailed(Kind.TLS, str(self._fault))
        if not self._buffer and self._fault is not None:
            raise httpcore2.ReadError(str(self._fault)) from self._fault
        data = bytes(self._buffer[:most])
        del self._buffer[:most]
        if self._paused and self._transport is not None and len(self._buffer) < _PAUSE_BYTES:
            self._paused = False
            self._transport.resume_reading()
        return data

    def spoke(self) -> bool:
        """Return whether there is something unread, or the end."""
        return bool(self._buffer) or self._ended

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PipeStream(httpcore2.AsyncNetworkStream):
    """A :class:`Pipe` with its transport, under httpcore2's names. Time is bounded by who calls."""

    def __init__(self, transport: asyncio.Transport, pipe: Pipe) -> None:
        self._transport = transport
        self._pipe = pipe
        self._unwritten: list[bytes] = []
        self._answering = False  #: a request went out, and nothing came back yet
        self._poll: select.poll | None = None
        if _PEER_GONE:
            self._poll = select.poll()
            self._poll.register(transport.get_extra_info("socket").fileno(), _PEER_GONE)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Send what was written, then return what came.

        Raises:
            httpcore2.RemoteProtocolError: an answer does not begin as HTTP/1 does; the parser would wait for
                the end of a head that never comes.
        """
        self._flush()
        data = await self._pipe.read(max_bytes)
        if self._answering and data:
            self._answering = False
            if not data.startswith(_BEGINNING[: len(data)]):
                raise httpcore2.RemoteProtocolError("the answer does not begin with HTTP/1.")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Take *buffer*: head and body leave together. Never waits, so that an early answer is read."""
        self._unwritten.append(buffer)
        if len(buffer) > _JOIN_BYTES:
            self._flush()

    async def aclose(self) -> None:
        """Cut the connection at once: a close would wait for a peer that does not read."""
        self._unwritten.clear()
        self._transport.abort()

    def get_extra_info(self, info: str) -> Any:
        """Answer what the pool asks: an idle connection that is readable cannot be used again."""
        if info == "is_readable":
            return self.spent()
        return self._transport.get_extra_info(info)

    def spent(self) -> bool:
        """Return whether nothing should be sent on it any more.

        It is closed, the server spoke out of turn, its close waits in the kernel, or a request is not out
        yet.
        """
        return (
            self._transport.is_closing()
            or self._pipe.spoke()
            or self._transport.get_write_buffer_size() > 0
            or (self._poll is not None and bool(self._poll.poll(0)))
        )

    def _flush(self) -> None:
        if self._unwritten:
            self._answering = True
            self._transport.write(b"".join(self._unwritten))  # one record of TLS, where it fits into one
            self._unwritten = []
