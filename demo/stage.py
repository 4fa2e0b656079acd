"""Set up a state folder, a private broker, the endpoints and the daemon, and remove them afterwards.

Data flow: home -> broker -> leveret listen -> leveret subscriptions apply -> leveret run, ready -> Stage.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from consumer.core.errors import ConfigError
from consumer.edges.private_broker import BrokerEndpoint, PrivateBroker
from demo import cast, children
from demo.children import Program

MARK: Final = "this-is-a-demo"  #: file that marks a folder as a demo's, which may be emptied
READY_S: Final = 60.0
DAEMON_GRACE_S: Final = 25.0  #: the daemon's own grace for requests in flight is 20 s
LISTENER_GRACE_S: Final = 5.0
COMMAND_S: Final = 60.0
LOOK_S: Final = 0.05
WORDS_MAX: Final = 800  #: last characters of a log that an error contains

_KEPT: Final = ("LEVERET_RABBITMQ_HOME", "LEVERET_RABBITMQ_CHROOT")
"""Settings that may come from outside: the place of RabbitMQ. All others are the demo's own."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """All processes of the demo, and the files of their output."""

    home: Path
    broker: BrokerEndpoint
    health_url: str  #: URL of the daemon's health port
    requests: Path  #: records of the endpoints, one JSON object a line
    daemon_log: Path
    subscription_ids: dict[tuple[str, str], str]  #: (tenant, name of the endpoint) -> id
    daemon: subprocess.Popen[bytes]
    listener: subprocess.Popen[bytes]

    def listing(self, *arguments: str) -> list[dict[str, object]]:
        """Run a ``leveret`` listing with ``--json`` and return its rows."""
        return listing(self.home, *arguments, "--json")

    def parked(self) -> list[dict[str, object]]:
        """Return the entries of the parked queue, read from the queue itself."""
        return listing(self.home, "parked", "export", "--wait")

    def ended(self) -> str | None:
        """Name a process that has ended, with the end of its log; None if all run.

        The folder with the log is removed at the end of the play, so the text must contain it.
        """
        for name, process, log in (
            ("the daemon", self.daemon, self.daemon_log),
            ("the endpoints", self.listener, self.home / "listen.log"),
        ):
            if process.poll() is not None:
                return f"{name} ended with {process.returncode}; its log ends with: {_log_end(log)}"
        return None


@contextmanager
def setting(home: Path, say: Say) -> Iterator[Stage]:
    """Set the stage in *home*, and remove it afterwards, however the play ends.

    Raises:
        ConfigError: the folder belongs to somebody else or to a running demo; or there is no RabbitMQ.
        RuntimeError: a part did not start; names it, with the end of its log.
    """
    with ExitStack() as stack:
        _take(home, stack)
        say("starting a private RabbitMQ (5 to 15 s)")
        broker = PrivateBroker(home)
        stack.callback(_end_broker, broker)
        endpoint = broker.start(bound=True)
        say(f"RabbitMQ {endpoint.version} is up; starting six endpoints and the daemon")
        stage = _play_parts(home, endpoint, stack)
        stack.callback(say, "ending the daemon, the endpoints and RabbitMQ")
        yield stage


def _take(home: Path, stack: ExitStack) -> None:
    """Make the folder ours and empty; remove it at the end."""
    if home.exists() and any(home.iterdir()) and not (home / MARK).exists():
        raise ConfigError(f"{home}: is neither empty nor the folder of a demo; name another one with --home")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = stack.enter_context((home / MARK).open("a"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ConfigError(
            f"{home}: another demo plays there; end it, or name another folder with --home"
        ) from None
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    if (home / "broker").exists():  # a killed demo left it
        _end_broker(PrivateBroker(home))
    for left in home.iterdir():
        if left.name != MARK:
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def _end_broker(broker: PrivateBroker) -> None:
    broker.stop()
    shutil.rmtree(broker.layout.outside, ignore_errors=True)  # in a chroot it is outside home


def _play_parts(home: Path, endpoint: BrokerEndpoint, stack: ExitStack) -> Stage:
    """Start endpoints and daemon, in the order in which they need each other."""
    _write_private(home / "leveret.toml", cast.SETTINGS)
    secrets = cast.new_secrets()
    _write_private(home / "secrets", "".join(f"{secret}\n" for secret in secrets.values()))
    listener = _start(home, "listen", "--port", "0", "--json", "--secret-file", "secrets")
    stack.callback(children.end, listener, LISTENER_GRACE_S)
    url = _heard(listener, home / "listen.log", r"listening on (http://\S+)")
    _write_private(home / "subscriptions.yaml", cast.subscriptions(url, secrets))
    applied = listing(home, "subscriptions", "apply", "subscriptions.yaml", "--json")
    daemon = _start(home, "run")
    stack.callback(children.end, daemon, DAEMON_GRACE_S)
    port = _heard(daemon, home / "run.log", r'"event":"daemon.started",.*"port":(\d+)')
    health_url = f"http://127.0.0.1:{port}"
    _await_ready(daemon, health_url)
    return Stage(
        home=home,
        broker=endpoint,
        health_url=health_url,
        requests=home / "listen.jsonl",
        daemon_log=home / "run.log",
        subscription_ids={(str(row["tenant"]), str(row["name"])): str(row["id"]) for row in applied},
        daemon=daemon,
        listener=listener,
    )


def listing(home: Path, *arguments: str) -> list[dict[str, object]]:
    """Run a ``leveret`` command that prints JSON lines on *home*, and return its rows.

    Raises:
        RuntimeError: it failed; contains the end of its stderr.
    """
    done = subprocess.run(  # noqa: S603 - argv is ours
        _leveret(*arguments),
        env=_environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
        start_new_session=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"leveret {' '.join(arguments)}: {done.stderr.strip()[-WORDS_MAX:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _start(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a ``leveret`` command in the background; the files of its output have its name."""
    out, log = home / f"{arguments[0]}.jsonl", home / f"{arguments[0]}.log"
    out.touch()
    return children.start(
        Program(argv=_leveret(*arguments), env=_environment(home), folder=home, out=out, log=log)
    )


def _leveret(*arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", "consumer", *arguments]


def _environment(home: Path) -> dict[str, str]:
    """Return our variables, without settings that were meant for another daemon."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith("LEVERET_") or k in _KEPT}
    return outside | {"LEVERET_HOME": str(home)}


def _heard(process: subprocess.Popen[bytes], file: Path, pattern: str) -> str:
    """Wait until a line of *file* matches *pattern*, and return its first group.

    Raises:
        RuntimeError: the process ended before, or it took too long.
    """
    deadline = time.monotonic() + READY_S
    while True:
        ended = process.poll()
        text = file.read_text("utf-8", "replace")
        if found := re.search(pattern, text):
            return found[1]
        if ended is not None or time.monotonic() > deadline:
            raise RuntimeError(
                f"`leveret {file.stem}` did not start ({ended}); its log ends with: {_log_end(file)}"
            )
        time.sleep(LOOK_S)


def _await_ready(daemon: subprocess.Popen[bytes], health_url: str) -> None:
    """Return once the daemon is ready.

    Raises:
        RuntimeError: it ended before, or it took too long; contains the reason.
    """
    deadline, reason = time.monotonic() + READY_S, ""
    while daemon.poll() is None and time.monotonic() < deadline:
        try:
            answer = httpx2.get(f"{health_url}/readyz", timeout=5.0, trust_env=False)
        except httpx2.HTTPError as error:
            reason = str(error)
        else:
            if answer.status_code == 200:
                return
            reason = answer.text.strip()
        time.sleep(LOOK_S)
    raise RuntimeError(f"the daemon is not ready: {reason}")


def _log_end(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-WORDS_MAX:].strip()


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)
