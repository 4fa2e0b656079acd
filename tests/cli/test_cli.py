"""The errors of the command line: one line per problem, with a remedy, and no traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes.children import python_env
from tests.support.processes.leveret import run

Leveret = Callable[..., "subprocess.CompletedProcess[str]"]

DEAD = "amqp://leveret:hush@127.0.0.1:1/"


@pytest.fixture
def leveret(tmp_path: Path) -> Leveret:
    """Run the command line as its own process, in an empty folder and with the given settings alone."""

    def invoke(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        env = python_env() | {f"LEVERET_{name}": value for name, value in settings.items()}
        return run(*arguments, env=env, cwd=tmp_path)

    return invoke


@pytest.mark.parametrize(
    "command", [("broker", "status"), ("broker", "start"), ("topology", "check"), ("subscriptions", "list")]
)
def test_a_home_that_is_a_file_is_one_line(
    leveret: Leveret, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Fault 61: a fault of the disk names the path and a remedy; no command prints a traceback."""
    home = tmp_path / "home"
    home.write_text("")

    failed = leveret(*command, HOME=str(home))

    [line] = failed.stderr.splitlines()
    assert failed.returncode == 1
    assert line.startswith(f"leveret: {home}")
    assert line.endswith("; check that the file exists and that you may read and write it")


def test_run_prefixes_each_line_of_a_settings_error(leveret: Leveret) -> None:
    """Faults 51, 61: one line per problem, each with our name, and nothing that a terminal obeys."""
    failed = leveret("run", LISTEN="x", SENDING__CONCURRENCY="\x1b[31m")

    lines = failed.stderr.splitlines()
    assert (failed.returncode, len(lines)) == (1, 2)
    assert all(line.startswith("leveret: ") for line in lines)
    assert "\x1b" not in failed.stderr


def test_run_on_a_taken_port_names_the_remedy(leveret: Leveret) -> None:
    """Fault 61: the daemon does not start, and names the setting to change."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = leveret("run", AMQP_URL=DEAD, LISTEN=f"127.0.0.1:{taken.getsockname()[1]}")

    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].endswith("; choose another address with LEVERET_LISTEN")
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("command", [("topology", "apply"), ("topology", "check"), ("parked", "list")])
def test_a_dead_broker_is_one_line(leveret: Leveret, command: tuple[str, ...]) -> None:
    """Fault 61: the AMQP library logs nothing itself; our own line has the remedy and no password."""
    failed = leveret(*command, AMQP_URL=DEAD)

    [line] = failed.stderr.splitlines()
    assert failed.returncode == 1
    assert line.startswith("leveret: no broker answered: amqp://leveret:***@127.0.0.1:1/: ")
    assert line.endswith("; is it up, and is LEVERET_AMQP_URL right?")


def test_output_without_room_is_one_line() -> None:
    """Rules, errors: a full disk under our own output is reported, with exit 1 and no traceback."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from consumer.cli import main; main()", "policy", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "leveret: stdout: no space left on device; free some, or write the output elsewhere"
    ]


def test_run_on_an_address_that_is_none_names_the_setting(leveret: Leveret) -> None:
    """Fault 61: a host that does not resolve: the error names setting, value and remedy."""
    failed = leveret("run", AMQP_URL=DEAD, LISTEN="nowhere.invalid:80")

    line = failed.stderr.splitlines()[-1]
    assert failed.returncode == 1
    assert "listen: nowhere.invalid:80: " in line
    assert line.endswith("; choose another address with LEVERET_LISTEN")
