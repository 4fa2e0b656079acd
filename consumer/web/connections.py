"""End connections whose client is too slow, and make room for a client that sends something.

uvicorn waits without an end for the head of a first request, and for a client that does not read its answer.
It refuses every request while there are too many connections.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0  #: seconds in which the head of a request must have arrived
READ_S: Final = 30.0  #: seconds in which a client must take some of its answer


class BoundedProtocol(H11Protocol):
    """One connection: no step of its client takes longer than its limit."""

    head_s = HEAD_S
    read_s = READ_S

    def __init__(self, *args: Any, **named: Any) -> None:
        """Take the arguments of uvicorn."""
        super().__init__(*args, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self.idle_since = self.loop.time()  #: seconds of the loop

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for a head, and make room for it."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(self.head_s, transport.abort)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head once a part of it is here."""
        super().data_received(data)
        if not self.is_idle:
            _cancel(self._head_timer)
            self._head_timer = None
        elif self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self.head_s, self.transport.abort)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.read_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        _cancel(self._write_timer)
        self._write_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        _cancel(self._head_timer)
        self._head_timer = None
        _cancel(self._write_timer)
        self._write_timer = None

    def _make_room(self) -> None:
        """End the connection that has been idle for the longest time, if there is one."""
        others = [each for each in self.connections if isinstance(each, BoundedProtocol) and each is not self]
        idle = [each for each in others if each.is_idle]
        if idle:
            longest = min(idle, key=lambda each: each.idle_since)
            self.connections.discard(longest)
            longest.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    """Cancel a timer."""
    if timer is not None:
        timer.cancel()
