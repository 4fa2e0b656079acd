"""Read and write one connection of the httpx2 sender, and judge whether it may be used again.

Data flow: (Dialer) transport and Pipe -> (PipeStream) httpx_pool reads and writes -> aborted or kept.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import httpcore2

from consumer.core.model import OutcomeKind
from consumer.edges.http.outcomes import AttemptFailed
from consumer.edges.http.response.unread import SocketPoll

_PAUSE_BYTES = 65_536  #: unread bytes from which the transport stops reading
_JOIN_BYTES = 65_536  #: data up to this size waits to be written with the next data


class Pipe(asyncio.Protocol):
    """The protocol of a connection: buffers arrived bytes until they are read."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ended = False
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport  # type: ignore[assignment]  # uvloop's transport fails isinstance

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
        """Return arrived bytes, at most *most*; nothing once the server has closed.

        Raises:
            httpcore2.ReadError: the connection broke.
            AttemptFailed: the server sent a TLS alert, for example for a missing client certificate.
        """
        while not self._buffer and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if not self._buffer and isinstance(self._fault, ssl.SSLError):
            raise AttemptFailed(OutcomeKind.TLS, str(self._fault))
        if not self._buffer and self._fault is not None:
            raise httpcore2.ReadError(str(self._fault)) from self._fault
        data = bytes(self._buffer[:most])
        del self._buffer[:most]
        if self._paused and self._transport is not None and len(self._buffer) < _PAUSE_BYTES:
            self._paused = False
            self._transport.resume_reading()
        return data

    def has_input(self) -> bool:
        """Return whether there are unread bytes, or the end."""
        return bool(self._buffer) or self._ended

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PipeStream:
    """A :class:`Pipe` with its transport. The caller bounds the time."""

    def __init__(self, transport: asyncio.Transport, pipe: Pipe) -> None:
        self._transport = transport
        self._pipe = pipe
        self._poll = SocketPoll(transport)
        self._unwritten: list[bytes] = []

    async def read(self, most: int) -> bytes:
        """Send all written data, then return arrived bytes; nothing once the server has closed."""
        self._flush()
        return await self._pipe.read(most)

    def write(self, data: bytes) -> None:
        """Take *data*, so that head and body leave together. It never waits, so an early answer is read."""
        self._unwritten.append(data)
        if len(data) > _JOIN_BYTES:
            self._flush()

    def abort(self) -> None:
        """Abort the connection: a close would wait for a peer that does not read."""
        self._unwritten.clear()
        self._transport.abort()

    def get_extra_info(self, name: str) -> Any:
        """Return a property of the transport."""
        return self._transport.get_extra_info(name)

    def spent(self) -> bool:
        """Return whether the connection must not be used again.

        It must not be used if either side has closed it, even unnoticed, if the server wrote out of turn, or
        if a request is not fully sent.
        """
        return (
            self._transport.is_closing()
            or self._pipe.has_input()
            or self._transport.get_write_buffer_size() > 0
            or self._poll.has_input()
        )

    def _flush(self) -> None:
        if self._unwritten:
            self._transport.write(b"".join(self._unwritten))  # one TLS record, if it fits into one
            self._unwritten = []
