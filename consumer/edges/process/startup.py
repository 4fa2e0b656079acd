"""What a process of ours sets up first: its standard streams, and no core dump that would hold secrets."""

from __future__ import annotations

import ctypes
import io
import os
import resource
import sys
from contextlib import suppress
from typing import Final

HANDLES_MAX: Final = 1_048_576  #: more than any worker uses; some systems allow a thousand times as many
_PR_SET_DUMPABLE: Final = 4
"""Source: Linux, prctl(2)."""


def open_standard_streams() -> None:
    """Make sure that stdin, stdout and stderr are open, and that any text can be written to them.

    A closed one becomes ``/dev/null``: otherwise a socket or a database would get its number, and what is
    printed would go there. A character that the terminal's encoding lacks is written as an escape.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            _open_null(number, os.O_RDONLY if mode == "r" else os.O_WRONLY)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
        stream = getattr(sys, name)
        if mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def raise_handle_limit() -> None:
    """Allow this process as many open files as the system lets it have: a connection is one each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = HANDLES_MAX if hard == resource.RLIM_INFINITY else min(hard, HANDLES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_null(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)


def forbid_core_dumps() -> None:
    """Let no crash write this process's memory, with the secrets in it, to a disk.

    A limit of 0 holds for files alone: a core that is piped to a program (systemd-coredump) needs the other.

    Source: Linux, core(5), "Piping core dumps to a program".
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, AttributeError):  # another system than Linux
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
