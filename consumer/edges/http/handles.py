"""Limit the file handles that sending uses, as broker, store and health port need some too.

The system assigns the lowest free number, so the number of a new socket shows how many handles are in use.
"""

from __future__ import annotations

import errno
import resource
import socket
from collections.abc import Callable
from typing import Final

RESERVED: Final = 128  #: handles that sending leaves to the rest of the process, at most a quarter of all

#: Errors of this machine itself: the endpoint received no request.
EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL))


def handle_limit() -> int:
    """Return the number of file handles that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 - 1 if soft == resource.RLIM_INFINITY else soft


def reserved_of(limit: int) -> int:
    """Return how many of *limit* handles sending leaves to the rest of the process."""
    return min(RESERVED, limit // 4)


class Handles:
    """The handles that one sender may use."""

    def __init__(self, limit: int | None = None) -> None:
        """Use *limit*, or the limit of the process if it is None."""
        limit = handle_limit() if limit is None else limit
        self._most = limit - reserved_of(limit)
        self._scarce = self._most - reserved_of(limit)
        self.relieve: list[Callable[[], None]] = []  #: called when few are left, to close idle connections

    def open_socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        """Return a new socket.

        Raises:
            OSError: ``EMFILE``: only the reserved handles are left.
        """
        made = socket.socket(family, kind, protocol)
        if made.fileno() >= self._scarce:
            for close_idle in self.relieve:
                close_idle()
        if made.fileno() >= self._most:
            made.close()
            raise OSError(errno.EMFILE, "no file handle is left for sending")
        return made
