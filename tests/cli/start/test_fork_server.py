"""A child of the fork server behaves as ``leveret`` in a Python of its own, and ends with the tests."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.edges.private_broker.processes import wait_until
from tests.support.processes import leveret
from tests.support.processes.children import python_env
from tests.support.processes.fork_server import Forked, ForkServer


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """A fork server of this module."""
    started = ForkServer()
    yield started
    started.close()


@pytest.fixture
def listener(server: ForkServer, tmp_path: Path) -> Iterator[Forked]:
    """A child that runs until it is ended."""
    log = tmp_path / "listen.log"
    with log.open("wb") as out, Path(os.devnull).open("rb") as nothing:
        files = (nothing.fileno(), out.fileno(), out.fileno())
        child = server.start(("listen", "--port", "0"), files, python_env(), tmp_path)
    assert wait_until(lambda: b"listening on" in log.read_bytes() or child.poll() is not None, 60)
    yield child
    child.kill()


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("config", "show"),
        ("subscriptions", "list", "--json"),
        ("subscriptions", "apply", "missing.yaml"),
    ],
    ids=" ".join,
)
def test_a_command_ends_as_in_a_python_of_its_own(words: tuple[str, ...], tmp_path: Path) -> None:
    """The same exit code and outputs: from the settings of its environment and of its folder."""
    (tmp_path / "leveret.toml").write_text('listen = "127.0.0.1:1234"\n')
    env = python_env() | {"LEVERET_HOME": str(tmp_path / "home")}
    assert leveret.fork_server is not None
    assert leveret.fork_server.serves(env), "both would be a Python of its own"
    own = subprocess.run(
        [*leveret.COMMAND, *words],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    forked = leveret.run(*words, env=env, cwd=tmp_path)

    assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr)


def test_settings_do_not_pass_from_one_child_to_the_next(tmp_path: Path) -> None:
    """Each child has exactly the environment of its start."""
    env = python_env() | {"LEVERET_HOME": str(tmp_path)}

    first = leveret.run("config", "show", env=env | {"LEVERET_LISTEN": "127.0.0.1:4321"}, cwd=tmp_path)
    second = leveret.run("config", "show", env=env, cwd=tmp_path)

    assert "127.0.0.1:4321" in first.stdout
    assert "127.0.0.1:4321" not in second.stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_signals_reach_the_child(listener: Forked, number: signal.Signals, code: int) -> None:
    """An ordinary end has its own exit code; a signal that ends it is the exit code."""
    assert listener.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        listener.wait(0)

    listener.send_signal(number)

    assert listener.wait(60) == code
    listener.terminate()  # it has ended: the signal goes nowhere


def test_a_child_ends_with_the_server(server: ForkServer, listener: Forked) -> None:
    """No process outlives the tests."""
    server.close()

    assert wait_until(lambda: not Path(f"/proc/{listener.pid}").exists(), 60)
    assert listener.wait(60) == -signal.SIGKILL


def test_other_variables_need_a_python_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reads some variables only when it starts, so a later change of a test needs another one too."""
    here, server = dict(os.environ), ForkServer()

    assert server.serves(here | {"LEVERET_LISTEN": "127.0.0.1:1"})
    assert not server.serves(here | {"PYTHONUTF8": "0"})
    assert not server.serves({name: value for name, value in here.items() if name != "PATH"})
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert not server.serves(python_env())
