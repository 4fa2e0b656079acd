"""Keep sending from using up the process's file handles: broker, store and health port need some.

The system gives out the lowest free number, so the number of a new socket says how many handles are in use.
"""

from __future__ import annotations

import errno
import resource
import socket
from collections.abc import Callable
from typing import Final

RESERVED: Final = 128  #: handles that sending leaves to the rest of the process, or a quarter of few

#: This machine has run out of something; the endpoint was never asked.
EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL))


def handle_limit() -> int:
    """Return how many file handles this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 - 1 if soft == resource.RLIM_INFINITY else soft


def reserved_of(limit: int) -> int:
    """Return how many of *limit* handles sending leaves to the rest of the process."""
    return min(RESERVED, limit // 4)


class Handles:
    """The handles that one sender may use."""

    def __init__(self, limit: int | None = None) -> None:
        """Read the process's limit, unless *limit* is given."""
        limit = handle_limit() if limit is None else limit
        self._most = limit - reserved_of(limit)
        self._scarce = self._most - reserved_of(limit)
        self.relieve: list[Callable[[], None]] = []  #: called where few are left: close what is kept idle

    def open_socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        """Return a new socket.

        Raises:
            OSError: ``EMFILE``: no handle is left but the reserved ones.
        """
        made = socket.socket(family, kind, protocol)
        if made.fileno() >= self._scarce:
            for close_idle in self.relieve:
                close_idle()
        if made.fileno() >= self._most:
            made.close()
            raise OSError(errno.EMFILE, "no file handle is left for sending")
        return made
