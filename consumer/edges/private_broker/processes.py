"""Start processes that outlive us, and end exactly those again.

A process id alone proves nothing, as the kernel reuses it. So a process is identified by its id together with
its start time, and (where /proc exists) by a marker in its environment, which its children inherit.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PROC = Path("/proc")

#: Limit of open files. A higher one has no use and costs start-up time: the Erlang port program and epmd
#: close every possible descriptor one by one, and some container hosts allow 10**9 of them.
MAX_OPEN_FILES = 1_048_576

_POLL_S = 0.05

# A shell raises the limit; doing so between fork and exec in Python is unsafe with threads.
_LAUNCH = f"""\
hard=$(ulimit -Hn)
if [ "$hard" = unlimited ] || [ "$hard" -gt {MAX_OPEN_FILES} ]; then hard={MAX_OPEN_FILES}; fi
ulimit -n "$hard" 2>/dev/null || true
umask 077
log=$1
shift
exec 3<&0
"$@" <&3 3<&- >>"$log" 2>&1 &
echo $!
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process as long as it lives, distinct from later ones with its id."""

    pid: int
    started: str  #: kernel ticks since boot with the boot's id, or the start date where there is no /proc


def identify(pid: int) -> Identity | None:
    """Return the process that now has the id *pid*; None if there is none, or only a zombie."""
    if PROC.joinpath("self/stat").exists():
        return _identify_by_proc(pid)
    return _identify_by_ps(pid)


def _identify_by_proc(pid: int) -> Identity | None:
    """Read the start time.

    A process whose first thread has ended is a zombie while its other threads still run, and until then its
    sockets are open. Source: proc(5), /proc/[pid]/stat fields 3 (state), 20 (threads), 22 (starttime).
    """
    try:
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    ended = fields[0] in "ZX" and int(fields[17]) <= 1
    return None if ended else Identity(pid, f"{boot}:{fields[19]}")


def _identify_by_ps(pid: int) -> Identity | None:
    """Read the start time with ps, as macOS and the BSDs have no /proc."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    out = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()  # noqa: S603 (own argv)
    return None if not out or out[0].startswith("Z") else Identity(pid, " ".join(out[1:]))


def alive(who: Identity | None) -> bool:
    """Return whether exactly this process still runs."""
    return who is not None and identify(who.pid) == who


def find_marked(marker: str) -> list[Identity]:
    """Return every other process with *marker* (``NAME=value``) in its environment; none without /proc."""
    wanted, found = marker.encode(), []
    for entry in PROC.glob("[0-9]*/environ"):
        pid = int(entry.parent.name)
        with suppress(OSError):  # it has ended, or belongs to another user
            if pid != os.getpid() and wanted in entry.read_bytes().split(b"\0"):
                found.append(identify(pid))
    return [who for who in found if who is not None]


def spawn_detached(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path, stdin: IO[bytes] | None = None
) -> Identity:
    """Start *argv* in a new session, adopted by init, with its limit of open files at the hard one.

    Args:
        argv: Program and arguments, without secrets, as every user can read them.
        env: The whole environment of the process.
        cwd: Its working directory.
        log: File to which its stdout and stderr are appended.
        stdin: Its standard input; None is ``/dev/null``.

    Returns:
        The running process. If it ended at once, its identity is never alive.
    """
    answer = subprocess.run(  # noqa: S603 (argv is built here, nothing is parsed)
        ["/bin/sh", "-c", _LAUNCH, "sh", str(log), *argv],
        env=dict(env),
        cwd=cwd,
        stdin=stdin if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    pid = int(answer.stdout)
    return identify(pid) or Identity(pid, "ended")


def end(who: Identity, grace_s: float) -> None:
    """Send SIGTERM, and SIGKILL after *grace_s*; nothing if the process has ended."""
    if grace_s > 0:
        send(who, signal.SIGTERM)
        if wait_until(lambda: not alive(who), grace_s):
            return
    send(who, signal.SIGKILL)
    wait_until(lambda: not alive(who), 10.0)


def end_all(them: Iterable[Identity]) -> None:
    """Kill these processes at once and wait until they have ended."""
    victims = list(them)
    for who in victims:
        send(who, signal.SIGKILL)
    wait_until(lambda: not any(alive(who) for who in victims), 10.0)


def send(who: Identity, number: signal.Signals) -> None:
    """Send a signal to exactly this process; nothing if it has ended, even if its id is in use again."""
    if alive(who):
        with suppress(ProcessLookupError):
            os.kill(who.pid, number)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Check *condition* every 50 ms; return whether it became true within *timeout_s*."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
