"""Run a command on a terminal of its own, as a person does."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Shown:
    """What came of it."""

    code: int
    text: str  #: everything that the terminal was told, escape sequences included


async def on_terminal(
    words: Sequence[str], env: Mapping[str, str], typed: Mapping[str, str] | None = None
) -> Shown:
    """Run ``leveret`` with *words* on a pseudo terminal.

    Args:
        words: Of the command line.
        env: Its environment.
        typed: What is typed once a text has appeared; a key that is ``""`` at once.
    """
    return await asyncio.to_thread(_run, words, env, dict(typed or {}))


def _run(words: Sequence[str], env: Mapping[str, str], typed: dict[str, str]) -> Shown:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "consumer", *words]
    settings = {**env, "TERM": "xterm", "COLUMNS": "200", "LINES": "50"}
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    deadline = time.monotonic() + PATIENCE_S
    seen = b""
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(ours, 65_536)
            except OSError:  # EIO: the last one to hold the terminal has gone
                break
            if not part:
                break
            seen += part
            for text in [text for text in typed if text.encode() in seen]:
                os.write(ours, typed.pop(text).encode())
        code = process.wait(max(0.1, deadline - time.monotonic()))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
    return Shown(code, seen.decode("utf-8", "replace"))
