"""Child processes that end with the process that started them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from consumer.edges.private_broker.files import draw_port

#: Becomes the program named after it, and dies with its parent. Not between fork and exec in Python, which is
#: unsafe with threads. Source: prctl(2), PR_SET_PDEATHSIG = 1, kept over execve; 9 is SIGKILL.
LAUNCH = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
os.execvp(sys.argv[1], sys.argv[1:])
"""


LOOK_S = 0.02  #: first pause between two looks
LOOKS_APART_S = 0.3  #: longest pause between two looks


class Child(Protocol):
    """A child process: one of :mod:`subprocess`, or one of the fork server."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def returncode(self) -> int | None:
        """Its exit code once it was seen to have ended; a negative one is the signal that ended it."""

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; wait at most *timeout* seconds for it."""

    def send_signal(self, sig: int, /) -> None:
        """Send a signal, unless it has ended."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


def spawn(
    argv: Sequence[str],
    *,
    log: Path,
    out: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start *argv* with its errors appended to *log*, and its output to *out*, or to *log* too."""
    with log.open("ab") as errors, (out or log).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", LAUNCH, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=None if env is None else dict(env),
            cwd=cwd,
        )


NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  #: loopback needs none


async def wait_exit(process: Child, timeout_s: float) -> int | None:
    """Return the exit code of *process*, or None when it still runs after *timeout_s*."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while (code := process.poll()) is None:
        if asyncio.get_running_loop().time() >= deadline:
            return None
        await asyncio.sleep(0.01)
    return code


async def stop(process: Child | None, timeout_s: float = 10.0) -> None:
    """End *process* with SIGTERM, and with SIGKILL when that does not help."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    if await wait_exit(process, timeout_s) is None:
        process.kill()
        await wait_exit(process, timeout_s)


async def serving(process: Child, url: str, log: Path, timeout_s: float = 30.0) -> None:
    """Return once *url* answers 200; the process is ended if it does not in time.

    Raises:
        RuntimeError: it ended, or did not answer in time; the text is the end of its log.
    """
    deadline = time.monotonic() + timeout_s
    while not await asyncio.to_thread(answers, url):
        if process.poll() is not None or time.monotonic() > deadline:
            await stop(process)
            raise RuntimeError(await asyncio.to_thread(_end_of, log))
        await asyncio.sleep(0.05)


def _end_of(log: Path) -> str:
    return log.read_text()[-1500:]


def answers(url: str) -> bool:
    """Return whether *url* answers 200."""
    try:
        fetch(url, timeout_s=5)
    except OSError:
        return False
    return True


async def wait_until(holds: Callable[[], bool], timeout_s: float) -> bool:
    """Look until *holds* is true; return False when it is not within *timeout_s*."""
    clock = asyncio.get_running_loop().time
    began = clock()
    while not (held := holds()):
        if clock() >= began + timeout_s:
            break
        await asyncio.sleep(pause_s(clock() - began))
    return held


def pause_s(waited_s: float) -> float:
    """Return the pause before the next look: a tenth of the wait so far, as looks cost the time of others."""
    return min(max(waited_s / 10, LOOK_S), LOOKS_APART_S)


def fetch(url: str, headers: Mapping[str, str] | None = None, timeout_s: float = 20.0) -> bytes:
    """GET a URL on loopback and return the body.

    Raises:
        OSError: no answer came, or one other than 200.
    """
    request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 (our own http:// URL)
    with NO_PROXY.open(request, timeout=timeout_s) as response:
        body: bytes = response.read()
        return body


def listens(process: Child, port: int) -> bool:
    """Return whether *process* itself listens at *port* of 127.0.0.1: after a race it is another's."""
    listening = re.compile(rf"0100007F:{port:04X} \S+ 0A ")
    try:
        lines = Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()
        sockets = {f"socket:[{line.split()[9]}]" for line in lines if listening.search(line)}
        return any(os.readlink(handle) in sockets for handle in Path(f"/proc/{process.pid}/fd").iterdir())
    except OSError:  # it has ended, or closed a file meanwhile
        return False


def children_of(process: Child) -> Iterator[int]:
    """Yield the ids of the processes that *process* has started and that still run."""
    for thread in Path(f"/proc/{process.pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended meanwhile
            yield from map(int, thread.read_text().split())


def child_of(process: Child | None, command: bytes) -> int:
    """Return the only child of *process* whose command line, with NULs, contains *command*."""
    assert process is not None
    [child] = [
        child for child in children_of(process) if command in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return child


def lives(pid: int) -> bool:
    """Return whether a process runs; a zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def free_port() -> int:
    """Draw a TCP port of 127.0.0.1 that is free now.

    It is below the kernel's range for outgoing connections and for listeners that ask for any port, so none
    of those takes it before our own listener does.
    """
    return draw_port()


def python_env() -> dict[str, str]:
    """Return this environment without the settings of Leveret."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}


@contextmanager
def unread_pipe(path: Path) -> Iterator[Path]:
    """Make a pipe at *path* whose reading end is open and never read."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield path
    finally:
        os.close(reader)
        path.unlink()
