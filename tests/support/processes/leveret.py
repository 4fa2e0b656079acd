"""Start ``leveret``: by the fork server of the tests if there is one, or else in a Python of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes.children import Child, spawn
from tests.support.processes.fork_server import ForkServer

COMMAND = (sys.executable, "-m", "consumer")
NOTHING = Path(os.devnull)

fork_server: ForkServer | None = None  #: pytest sets it; a proof measures whole processes


def start(
    *words: str, log: Path, out: Path | None = None, env: Mapping[str, str], cwd: Path | None = None
) -> Child:
    """Start a command, with its errors appended to *log*, and its output to *out*, or to *log* too."""
    if fork_server is None or not fork_server.serves(env):
        return spawn([*COMMAND, *words], log=log, out=out, env=env, cwd=cwd)
    with log.open("ab") as errors, (out or log).open("ab") as output, NOTHING.open("rb") as nothing:
        files = (nothing.fileno(), output.fileno(), errors.fileno())
        return fork_server.start(words, files, env, cwd or Path.cwd())


def run(
    *words: str, env: Mapping[str, str], cwd: Path | None = None, timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with an empty standard input; its outputs are in the result.

    Raises:
        TimeoutExpired: it was killed, as it still ran after *timeout_s*.
    """
    argv = [*COMMAND, *words]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, NOTHING.open("rb") as nothing:
        process: Child
        if fork_server is None or not fork_server.serves(env):
            process = subprocess.Popen(argv, stdin=nothing, stdout=out, stderr=err, env=dict(env), cwd=cwd)
        else:
            files = (nothing.fileno(), out.fileno(), err.fileno())
            process = fork_server.start(words, files, env, cwd or Path.cwd())
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read().decode(), err.read().decode())
