"""Look at this machine: state folder, open files, and the daemon at the listen address."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import stat
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Final

import httpx2

from consumer.core.errors import ConfigError
from consumer.core.tools.doctor.finding import Check, Finding, fault, note, warning, well
from consumer.core.tools.doctor.surroundings import HomeState, home_findings, own_handle_findings
from consumer.edges.http.handles import reserved_of
from consumer.edges.inquire.daemon_page import daemon_address, read_readiness
from consumer.edges.process.startup import HANDLES_MAX
from consumer.settings import Settings

DAEMON_S: Final = 5.0  #: longest wait for the daemon's answer


def look_at_machine(settings: Settings) -> Sequence[Finding]:
    """Return findings about the state folder and the open files of a worker."""
    home = list(home_findings(home_state(settings.home))) or [
        well(Check.HOME, str(settings.home), "can be written, and its disk has room")
    ]
    limit = _hard_limit()
    handles = own_handle_findings(
        limit, concurrency=settings.sending.concurrency, reserved=reserved_of(limit)
    )
    program = well(Check.VERSION, f"leveret {version('leveret')}", f"runs on Python {python_version()}")
    return (*home, *handles, program)


def home_state(home: Path) -> HomeState:
    """Return the state of the folder, or of the one in which it would be made."""
    path = str(home.absolute())
    if not home.is_dir():
        return HomeState(path=path, is_there=home.exists(), is_writable=False, free_bytes=2**63)
    return HomeState(
        path=path,
        is_there=True,
        is_writable=os.access(home, os.W_OK | os.X_OK),
        is_open_to_others=bool(home.stat().st_mode & stat.S_IRWXO),
        free_bytes=shutil.disk_usage(home).free,
    )


def _hard_limit() -> int:
    """Return how many files a worker may open: it raises its limit at the start."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HANDLES_MAX if hard == resource.RLIM_INFINITY else min(hard, HANDLES_MAX)


async def look_at_daemon(settings: Settings, limit_s: float = DAEMON_S) -> Sequence[Finding]:
    """Return whether a daemon answers at the listen address within *limit_s*, and why it is not ready."""
    try:
        at = daemon_address(settings)
    except ConfigError as error:
        return (
            note(
                Check.DAEMON, "the daemon", str(error).partition("; ")[0], "`leveret status --at HOST:PORT`"
            ),
        )
    subject = f"the daemon at {at}"
    try:
        async with (
            asyncio.timeout(limit_s),
            httpx2.AsyncClient(timeout=limit_s, trust_env=False) as client,
        ):
            answer = await client.get(f"http://{at}/readyz")
    except httpx2.ConnectError:
        return (note(Check.DAEMON, subject, "does not run", "start it with `leveret run`"),)
    except (httpx2.TimeoutException, TimeoutError):
        return (_foreign(subject, f"a program there did not answer within {limit_s:g} s"),)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return (_foreign(subject, f"no answer over HTTP: {type(error).__name__}"),)
    words = answer.text.partition("\n")[0]
    if not words.startswith(("ready", "not ready: ")) or answer.status_code not in (200, 503):
        return (_foreign(subject, f"another program answers there ({answer.status_code})"),)
    readiness = read_readiness(answer.status_code, answer.text)
    if readiness.ready:
        notes = [warning(Check.DAEMON, subject, each, "see the runbook") for each in readiness.reasons]
        return notes or [well(Check.DAEMON, subject, "is ready")]
    remedy = "look for the reason in the runbook, and in the daemon's log"
    return [fault(Check.DAEMON, subject, f"is not ready: {each}", remedy) for each in readiness.reasons]


def _foreign(subject: str, text: str) -> Finding:
    return fault(Check.DAEMON, subject, text, "end that program, or set LEVERET_LISTEN to another port")
