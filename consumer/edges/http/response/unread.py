"""Ask the kernel what waits on a connection: a close, or bytes, that the loop has not read yet."""

from __future__ import annotations

import asyncio
import select

#: The server closed its side; 0 where the system cannot tell. Source: Linux poll(2).
_PEER_GONE: int = getattr(select, "POLLRDHUP", 0)

QUIET_S = 0.1
"""A server that writes a body behind a 204 does so within this time.

Nagle's algorithm holds such a body back until the head is acknowledged, which may take 40 ms and a way there
and back.
"""


class Wire:
    """The kernel's end of a connection."""

    __slots__ = ("_poll",)

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN | _PEER_GONE)

    def gone(self) -> bool:
        """Return whether the server has closed its side."""
        events = self._poll.poll(0)
        return bool(events) and events[0][1] & ~select.POLLIN != 0

    def stirs(self) -> bool:
        """Return whether there is anything: bytes, or a close."""
        return bool(self._poll.poll(0))
