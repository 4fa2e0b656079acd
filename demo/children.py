"""Start child processes in their own sessions, so that Ctrl-C reaches only us and none outlives us.

A child in our process group would get the terminal's Ctrl-C as well as our SIGTERM, and a daemon ends at once
after a second signal.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# It becomes the given program, and dies when we do. Doing this between fork and exec in Python is unsafe with
# threads. Source: prctl(2), PR_SET_PDEATHSIG = 1, kept over execve; 15 is SIGTERM.
_LAUNCH = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run, and the files for its output."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: Path  #: working directory
    out: Path  #: file to which its stdout is appended
    log: Path  #: file to which its stderr is appended


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
    """Send SIGTERM, and SIGKILL after *grace_s*; return the exit code."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            return process.wait(grace_s)
        process.kill()
    return process.wait()
