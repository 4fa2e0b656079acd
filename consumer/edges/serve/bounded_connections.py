"""Stand in front of an HTTP server and bound how many connections it has, and how long they are idle.

Data flow: connection -> (Front) counted; over the bound the one that has been idle for longest is cut -> the
server's own protocol, which gets all that comes.

A port without a login must not use up the process's file handles: 400 idle connections did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 30.0


class Front:
    """Counts the connections of one server."""

    def __init__(self, make: Callable[[], asyncio.Protocol], most: int, idle_s: float = IDLE_S) -> None:
        """Begin.

        Args:
            make: Makes the server's own protocol for one connection.
            most: Connections at the same time.
            idle_s: After so long without a byte from it a connection is cut.
        """
        self._make = make
        self._most = most
        self.idle_s = idle_s
        self._guests: dict[_Guest, None] = {}  #: those heard of longest ago first

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Guest(self, self._make())

    def came(self, guest: _Guest) -> None:
        """Take in a connection; another one goes where there are too many."""
        self._guests[guest] = None
        if len(self._guests) > self._most:
            oldest = next(iter(self._guests))
            del self._guests[oldest]
            oldest.cut()

    def heard(self, guest: _Guest) -> None:
        """It sent something: it goes last of all."""
        if self._guests.pop(guest, guest) is None:
            self._guests[guest] = None

    def went(self, guest: _Guest) -> None:
        """It is over."""
        self._guests.pop(guest, None)


class _Guest(asyncio.Protocol):
    """One connection: passes on what comes."""

    def __init__(self, front: Front, inner: asyncio.Protocol) -> None:
        self._front = front
        self._inner = inner
        self._transport: asyncio.BaseTransport | None = None
        self._idle: asyncio.TimerHandle | None = None

    def cut(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()  # type: ignore[attr-defined]  # every stream transport has it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport
        self._front.came(self)
        self._wait()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._front.heard(self)
        self._wait()
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
        self._front.went(self)
        self._inner.connection_lost(exc)

    def _wait(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(self._front.idle_s, self.cut)
