"""The health check of the containers, and the commands for them in the documentation."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.data import ROOT
from tests.support.processes.children import free_port, python_env
from tests.support.repository.compose import COMPOSE, DOCKERFILE, SERVICES, mounts

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docker-compose.yml")
[HEALTH_CHECK] = map(json.loads, re.findall(r"^    CMD (\[.+\])$", DOCKERFILE, flags=re.MULTILINE))


@contextmanager
def answering(status: int) -> Iterator[tuple[int, list[str]]]:
    """Listen on a free port and answer every GET with *status*; give the port and the paths asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, paths
        finally:
            server.shutdown()
            thread.join()


def checked(port: int) -> int:
    """Run the health check against *port*, in surroundings that name a proxy; return its exit code."""
    program, *rest = HEALTH_CHECK
    assert program == "python"
    words = [word.replace("8080", str(port)) for word in rest]
    env = python_env() | {"http_proxy": "http://127.0.0.1:1/", "HTTP_PROXY": "http://127.0.0.1:1/"}
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, timeout=60, check=False)
    return done.returncode


def test_the_health_check_asks_whether_the_daemon_is_ready() -> None:
    """Well while /readyz answers 200, even if the environment names a proxy; else not."""
    with answering(200) as (port, paths):
        assert checked(port) == 0
    assert paths == ["/readyz"]
    with answering(503) as (port, _):
        assert checked(port) == 1
    assert checked(free_port()) == 1


def shown_commands() -> Iterator[str]:
    """Yield the arguments of each ``docker compose`` in the pages."""
    for page in PAGES:
        yield from re.findall(r"docker compose ([a-z-][^`#\n)]*)", page.read_text("utf-8"))


def fault(command: str) -> str | None:
    """Return why a ``docker compose`` command would fail, or do more than it says; None when it is right."""
    line, _, read = command.partition(" < ")
    words = shlex.split(line)
    if words[0] == "--profile":
        known = {profile for service in SERVICES.values() for profile in service.get("profiles", ())}
        if words[1] not in known:
            return f"no profile {words[1]}"
        words = words[2:]
    verb, *rest = words
    if verb in ("up", "down", "ps"):
        return None
    names = [word for word in rest if word in SERVICES]
    if verb == "cp":
        return _copy_fault(rest[-1])
    if verb not in ("exec", "run", "logs") or not names:
        return f"no service in {command}"
    if verb == "run" and "--no-deps" not in rest and SERVICES[names[0]].get("profiles"):
        return f"starts all that {names[0]} depends on: --no-deps"
    return "stdin is no terminal: -T" if verb == "exec" and read and "-T" not in rest else None


def _copy_fault(target: str) -> str | None:
    """A container with a read-only root takes copies into writable volumes alone, not into a tmpfs."""
    name, _, path = target.partition(":")
    if name not in SERVICES:
        return f"no service {name}"
    writable = [inside for _, inside, read_only in mounts(SERVICES[name]) if not read_only]
    if SERVICES[name].get("read_only") and not any(path.startswith(f"{inside}/") for inside in writable):
        return f"the root of {name} is read-only"
    return None


def test_the_commands_that_are_shown_do_what_they_say() -> None:
    """Services and profiles exist; nothing fails, and nothing is started beside."""
    commands = list(shown_commands())

    assert len(commands) >= 8
    assert {command: fault(command) for command in commands if fault(command)} == {}


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("cp subscriptions.yaml leveret:/tmp/", "read-only"),
        ("cp x leveret:/run/leveret/x", "read-only"),
        ("cp x nobody:/tmp/", "no service nobody"),
        ("run --rm --entrypoint cat publisher-acme /run/publisher/amqp-url", "--no-deps"),
        ("exec leveret leveret subscriptions apply - < subscriptions.yaml", "-T"),
        ("exec nobody ls", "no service"),
        ("--profile samples up", "no profile samples"),
    ],
)
def test_a_command_that_would_fail_is_found(command: str, says: str) -> None:
    """The check of the commands would find it."""
    assert says in (fault(command) or "")
    assert fault("cp x leveret:/var/lib/leveret/x") is None
    assert set(COMPOSE["volumes"]) >= {"leveret-home"}
