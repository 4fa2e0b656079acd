"""A program on a terminal of its own, as a person has it: a test reads the screen and presses keys."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Becomes the program named after it once its stdin is its controlling terminal, so that Ctrl-C reaches it.
_LAUNCH = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
CTRL_C = b"\x03"


class Terminal:
    """Runs *argv* on a terminal of 100 columns and 30 lines."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _LAUNCH, *argv],
            env=dict(env) | {"TERM": "xterm"},
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._got = b""

    @property
    def raw(self) -> str:
        """All output so far, escape sequences included."""
        return self._got.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """Everything that was drawn so far, without colours and cursor movements."""
        return _ESCAPES.sub("", self.raw)

    def press(self, keys: bytes) -> None:
        """Type *keys*."""
        os.write(self._ours, keys)

    def until(self, pattern: str, limit_s: float = 60.0) -> re.Match[str]:
        """Read until *pattern* was drawn.

        Raises:
            AssertionError: it was not within *limit_s*, or before the program ended.
        """
        deadline = time.monotonic() + limit_s
        while (found := re.search(pattern, self.text)) is None:
            assert self._read(deadline), f"not drawn: {pattern}; but: {self.text[-2000:]}"
        return found

    def wait(self, limit_s: float = 60.0) -> int:
        """Read to the end; return the exit code."""
        deadline = time.monotonic() + limit_s
        while self._read(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def close(self) -> None:
        """End the program if it still runs, and take the terminal away."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        os.close(self._ours)

    def _read(self, deadline: float) -> bool:
        """Read the available output; return False at the end of the program or of the time."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            got = os.read(self._ours, 65_536)
        except OSError:  # Linux raises this once the other end is closed
            return False
        self._got += got
        return bool(got)


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of a command."""

    code: int
    text: str  #: all output, escape sequences included


async def on_terminal(
    words: Sequence[str], env: Mapping[str, str], typed: Mapping[str, str] | None = None
) -> Shown:
    """Run ``leveret`` with *words* to its end, on a terminal of 200 columns.

    Args:
        words: Of the command line.
        env: Its environment.
        typed: The text to type once another text has appeared, in this order.
    """
    return await asyncio.to_thread(_run, words, env, typed or {})


def _run(words: Sequence[str], env: Mapping[str, str], typed: Mapping[str, str]) -> Shown:
    argv = [sys.executable, "-m", "consumer", *words]
    terminal = Terminal(argv, {**env, "COLUMNS": "200", "LINES": "50"}, Path.cwd())
    try:
        for text, answer in typed.items():
            terminal.until(re.escape(text))
            terminal.press(answer.encode())
        return Shown(terminal.wait(), terminal.raw)
    finally:
        terminal.close()
