"""Bound the number of connections to an HTTP server, and the time for which they are idle.

Data flow: connection -> counted; over the bound, the connection that has been idle for longest is cut -> the
server's own protocol, which receives all data.

A port without a login must not use up the process's file handles: 400 idle connections once did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 30.0


class BoundedConnections:
    """Creates and counts the connections of one server."""

    def __init__(self, make: Callable[[], asyncio.Protocol], most: int, idle_s: float = IDLE_S) -> None:
        """Begin without connections.

        Args:
            make: Makes the server's own protocol for one connection.
            most: Highest number of connections at the same time.
            idle_s: A connection without a byte from the client is cut after this time, in seconds.
        """
        self._make = make
        self._most = most
        self.idle_s = idle_s
        self._open: dict[_Connection, None] = {}  #: those with the oldest data first

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Connection(self, self._make())

    def opened(self, connection: _Connection) -> None:
        """Count a connection; over the bound, cut the one that has been idle for longest."""
        self._open[connection] = None
        if len(self._open) > self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cut()

    def received(self, connection: _Connection) -> None:
        """Move a connection that sent data to the end of the order."""
        if self._open.pop(connection, connection) is None:
            self._open[connection] = None

    def closed(self, connection: _Connection) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)


class _Connection(asyncio.Protocol):
    """One connection: passes its data to the server's protocol."""

    def __init__(self, bound: BoundedConnections, inner: asyncio.Protocol) -> None:
        self._bound = bound
        self._inner = inner
        self._transport: asyncio.BaseTransport | None = None
        self._idle: asyncio.TimerHandle | None = None

    def cut(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()  # type: ignore[attr-defined]  # every stream transport has it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport
        self._bound.opened(self)
        self._restart_timer()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._bound.received(self)
        self._restart_timer()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Called by the loop."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Called by the loop."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if self._idle is not None:
            self._idle.cancel()
        self._bound.closed(self)
        self._inner.connection_lost(exc)

    def _restart_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(self._bound.idle_s, self.cut)
