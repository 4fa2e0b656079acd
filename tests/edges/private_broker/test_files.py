"""The files of the private broker: the size of its folder, and where a server is found."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from consumer.cli.broker import app
from consumer.core.errors import ConfigError
from consumer.edges.private_broker import files, find_server

WAYS_ON = ("make broker-install", "docker run", "LEVERET_AMQP_URL", "LEVERET_RABBITMQ_HOME")


def test_the_size_of_a_folder_is_read_while_it_changes(tmp_path: Path) -> None:
    """``broker status`` works while the node makes and removes folders."""
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            (tmp_path / "queue" / "segments").mkdir(parents=True)
            (tmp_path / "queue" / "segments" / "1").write_bytes(b"x" * 4_096)
            shutil.rmtree(tmp_path / "queue")

    with ThreadPoolExecutor(1) as pool:
        churning = pool.submit(churn)
        try:
            sizes = {files.folder_bytes(tmp_path) for _ in range(2_000)}
            while len(sizes) < 2:
                sizes.add(files.folder_bytes(tmp_path))
        finally:
            over.set()
        churning.result()

    assert min(sizes) < max(sizes)


def test_without_a_server_the_error_names_the_ways_on(tmp_path: Path) -> None:
    """No RabbitMQ: one clear error on stderr, exit 1, with install, Docker and AMQP URL in it."""
    env = {"LEVERET_HOME": str(tmp_path), "LEVERET_RABBITMQ_HOME": str(tmp_path / "nothing")}

    result = CliRunner().invoke(app, ["start"], env=env)

    assert result.exit_code == 1
    assert all(way in result.stderr for way in WAYS_ON)
    assert result.stdout == ""


def test_a_server_is_found_in_a_folder_and_in_a_chroot(tmp_path: Path) -> None:
    """A named installation is taken with its Erlang; a package's wrapper script is not mistaken for one."""
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/rabbitmq-server").touch()  # the wrapper, which demands root
    with pytest.raises(ConfigError, match="no RabbitMQ server was found"):
        find_server(chroot=tmp_path, environ={})
    scripts = tmp_path / "usr/lib/rabbitmq/bin"
    scripts.mkdir(parents=True)
    for name in ("rabbitmq-server", "rabbitmq-env"):
        (scripts / name).touch()
    with pytest.raises(ConfigError, match="has no Erlang"):
        find_server(chroot=tmp_path, environ={})
    runtime = tmp_path / "usr/lib/erlang/erts-15.0/bin"
    runtime.mkdir(parents=True)
    (runtime / "epmd").touch()
    (tmp_path / "usr/lib/erlang/bin").mkdir()

    server = find_server(environ={"LEVERET_RABBITMQ_CHROOT": str(tmp_path)})

    assert server.scripts == Path("/usr/lib/rabbitmq/bin")
    assert server.command(server.epmd, "-names")[:2] == ["chroot", str(tmp_path)]
    assert (tmp_path / server.epmd.relative_to("/")).resolve() == runtime / "epmd"
