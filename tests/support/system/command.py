"""The command line as a child process that has the settings of a daemon."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

from tests.support.processes import leveret
from tests.support.processes.daemon import Daemon


async def command(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``leveret`` with the settings of *daemon*; stdin is no terminal."""
    return await asyncio.to_thread(leveret.run, *words, env=daemon.env)


def objects(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the JSON lines of a command that succeeded."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
