"""Prepare a process of ours: standard streams, file limit, and no core dumps, which would contain secrets."""

from __future__ import annotations

import ctypes
import io
import os
import resource
import sys
from contextlib import suppress
from typing import Final

HANDLES_MAX: Final = 1_048_576  #: more than any worker uses; some systems allow a thousand times more
_PR_SET_DUMPABLE: Final = 4
"""Source: Linux, prctl(2)."""


def open_standard_streams() -> None:
    """Make sure that stdin, stdout and stderr are open, and accept any text.

    A closed one is opened as ``/dev/null``: otherwise a socket or a database would get its number, and
    receive our output. A character that the terminal's encoding lacks is written as an escape.
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
    """Raise the limit of open files to the hard limit, as each connection needs one."""
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
    """Prevent core dumps, which would write this process's memory and secrets to a disk.

    RLIMIT_CORE covers only files; a core piped to a program (systemd-coredump) needs PR_SET_DUMPABLE.

    Source: Linux, core(5), "Piping core dumps to a program".
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, AttributeError):  # another operating system than Linux
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
