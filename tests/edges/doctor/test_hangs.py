"""Surroundings that hang for ever: the doctor names them and ends, though no thread can be stopped."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from consumer.core.tools.doctor.finding import Check, Level
from consumer.edges.doctor.examine import BROKER, NETWORK, Examination
from consumer.edges.doctor.watch import watched
from consumer.settings import Settings, load_settings
from tests.support.processes.children import free_port, python_env
from tests.support.servers.raw_server import Call, RawServer

LIMIT_S = 3.0
RUN = (
    "import sys; from consumer.cli.doctor import Report, run; "
    "sys.exit(run(Report(quiet=True, as_json=True), 0, *map(float, sys.argv[1:])))"
)
LONG_S = 60.0  #: of a process that has to end by itself long before


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Return a named pipe: to read it hangs for as long as nobody writes, as on a dead network drive."""
    path = tmp_path / "certificate.pem"
    os.mkfifo(path)
    return path


def release(pipe: Path) -> None:
    """End the reading of *pipe*, as the event loop of a test waits for its threads."""
    with suppress(OSError):  # nobody reads it
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def variables(home: Path, **values: str) -> dict[str, str]:
    """Return variables of settings; keywords are names without their prefix."""
    few = {
        "AMQP_URL": "amqp://user:hush@127.0.0.1:1",
        "HOME": str(home),
        "LISTEN": f"127.0.0.1:{free_port()}",
    }
    return {f"LEVERET_{name}": value for name, value in (few | values).items()}


def settings(home: Path, **values: str) -> Settings:
    """Return settings."""
    return load_settings(variables(home, **values))


def doctor(environ: Mapping[str, str], *limits_s: float) -> subprocess.CompletedProcess[str]:
    """Run the doctor in a process of its own, with limits of the whole and of a look."""
    return subprocess.run(
        [sys.executable, "-c", RUN, *map(str, limits_s)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def test_a_block_that_ends_in_time_goes_on() -> None:
    """The process is not ended, and nothing is printed by the watch."""
    ends: list[int] = []

    with watched(LONG_S, lambda: 1, ends.append):
        pass

    assert ends == []


@pytest.mark.parametrize("code", [0, 1])
def test_a_block_that_hangs_ends_the_process(code: int) -> None:
    """With the exit code of the results so far, which were printed before."""
    left, order = Event(), list[str]()

    def at_limit() -> int:
        order.append("printed")
        return code

    def leave(given: int) -> None:
        order.append(f"left {given}")
        left.set()

    with watched(0.01, at_limit, leave):
        assert left.wait(LONG_S)

    assert order == ["printed", f"left {code}"]


async def test_a_file_that_hangs_costs_its_look_only(tmp_path: Path, pipe: Path) -> None:
    """The network is a fault; all other looks have ended."""
    examination = Examination(settings(tmp_path, AMQP__CERT_FILE="", SENDING__CA_FILE=str(pipe)), look_s=2.0)

    found = await examination.run()
    release(pipe)

    late = [(each.check, each.subject) for each in found if "was not examined" in each.text]
    assert late == [(Check.EGRESS, NETWORK)]
    assert {Check.LOGIN, Check.STORE, Check.HOME, Check.DAEMON} <= {each.check for each in found}


async def test_the_findings_so_far_name_the_looks_that_go_on(tmp_path: Path) -> None:
    """Before anything has ended, each look is a fault."""
    found = Examination(settings(tmp_path)).unfinished(7.0)

    late = [each for each in found if each.text == "was not examined to the end within 7 s"]
    assert {Check.HOME, Check.LOGIN, Check.STORE, Check.EGRESS, Check.SUBSCRIPTIONS, Check.DAEMON} == {
        each.check for each in late
    }
    assert any(BROKER in each.subject for each in late)


@pytest.mark.parametrize("limits_s", [(LIMIT_S, LONG_S), (LONG_S, LIMIT_S)], ids=["whole", "look"])
def test_the_command_ends_though_a_thread_hangs(
    tmp_path: Path, pipe: Path, limits_s: tuple[float, float]
) -> None:
    """It prints the lines of the other looks and one about the network, and exits with 1."""
    environ = python_env() | variables(tmp_path, SENDING__CA_FILE=str(pipe))

    done = doctor(environ, *limits_s)

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stderr
    assert f"{NETWORK}: was not examined to the end within {LIMIT_S:g} s" in [
        f"{row['subject'].rpartition(', ')[2]}: {row['text']}" for row in rows
    ]


def test_the_command_ends_though_the_settings_hang(tmp_path: Path, pipe: Path) -> None:
    """A file with the URL of the broker that never ends is one line too."""
    environ = python_env() | variables(tmp_path) | {"LEVERET_AMQP_URL_FILE": str(pipe)}
    del environ["LEVERET_AMQP_URL"]

    done = doctor(environ, LIMIT_S)

    [row] = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, row["check"], row["level"]) == (1, "settings", "fault"), done.stderr


async def test_everything_is_silent(tmp_path: Path) -> None:
    """Broker, database, name server and listener accept a connection and never answer: a line for each."""
    async with RawServer(Call.gone) as silent:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
            deaf.bind(("127.0.0.1", 0))
            at = f"127.0.0.1:{silent.port}"
            chosen = settings(
                tmp_path,
                AMQP_URL=f"amqp://user:hush@{at}",
                AMQP__CONNECT_TIMEOUT_S="0.5",
                DATABASE_URL=f"postgresql://user:hush@{at}/leveret",
                STORE__BUSY_TIMEOUT_S="0.5",
                SENDING__DNS_SERVERS=f'["127.0.0.1:{deaf.getsockname()[1]}"]',
                SENDING__DNS_TIMEOUT_S="0.5",
                LISTEN=at,
            )
            found = await Examination(chosen).run()

    texts = {each.check: each.text for each in found if each.level is Level.FAULT}
    assert texts[Check.LOGIN].startswith("did not answer within 0.5 s")
    assert texts[Check.STORE] == "did not answer within 0.5 s"
    assert texts[Check.DNS] == "did not answer within 0.5 s"
    assert "did not answer within 5 s" in texts[Check.DAEMON]
