"""Ask the kernel about a connection: has the server closed it, and are there unread bytes?"""

from __future__ import annotations

import asyncio
import select

#: Event of a close by the server; 0 where the system lacks it. Source: Linux poll(2).
_PEER_GONE: int = getattr(select, "POLLRDHUP", 0)

QUIET_S = 0.1
"""Time within which a server writes an unexpected body behind a 204.

Nagle's algorithm holds such a body back until the head is acknowledged, which may take 40 ms and a round
trip.
"""


class SocketPoll:
    """The kernel's view of a connection."""

    __slots__ = ("_poll",)

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN | _PEER_GONE)

    def is_closed(self) -> bool:
        """Return whether the server has closed its side."""
        events = self._poll.poll(0)
        return bool(events) and events[0][1] & ~select.POLLIN != 0

    def has_input(self) -> bool:
        """Return whether there are unread bytes, or a close."""
        return bool(self._poll.poll(0))
