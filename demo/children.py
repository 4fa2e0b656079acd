"""Child processes in sessions of their own: Ctrl-C reaches us alone, and none outlives us.

A child in our process group would get the terminal's Ctrl-C beside our SIGTERM, and a daemon takes a second
signal for "end at once".
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Becomes the program named after it and dies when we do. Not between fork and exec in Python, which is unsafe
# with threads. Source: prctl(2), PR_SET_PDEATHSIG = 1, kept over execve; 15 is SIGTERM.
_LAUNCH = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run and where its words go."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: Path  #: working directory
    out: Path  #: its stdout is appended here
    log: Path  #: its stderr is appended here


def start(program: Program) -> subprocess.Popen[bytes]:
    """Start *program* and return at once."""
    with program.out.open("ab") as out, program.log.open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - argv is ours
            [sys.executable, "-S", "-E", "-c", _LAUNCH, *program.argv],
            env=dict(program.env),
            cwd=program.folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], grace_s: float) -> int:
    """Send SIGTERM, and SIGKILL when *grace_s* have passed; return the exit code."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            return process.wait(grace_s)
        process.kill()
    return process.wait()
