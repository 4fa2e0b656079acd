"""The command line as a child process that has the settings of a daemon."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from tests.support.processes.daemon import Daemon


async def command(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``leveret`` with the settings of *daemon*; stdin is no terminal."""
    argv = [sys.executable, "-m", "consumer", *words]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            env=daemon.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return await asyncio.to_thread(run)


def objects(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the JSON lines of a command that succeeded."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
