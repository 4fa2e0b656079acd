"""An API on the same store and broker as the local commands of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Run
from tests.support.remote import Both, RemoteDesk, remote_desk

SMALL = {
    "TOPOLOGY__LANES": "1",
    "TOPOLOGY__DUE_QUEUES": "1",
    "TOPOLOGY__SPILL_QUEUES": "0",
    "TOPOLOGY__RUNGS_S": "[2]",
}


@pytest.fixture
def amqp_url(request: pytest.FixtureRequest) -> str:
    """The URL of a broker: that of ``vhost`` for tests that use it, else one that is away."""
    return request.getfixturevalue("vhost") if "vhost" in request.fixturenames else "amqp://127.0.0.1:9"


@pytest.fixture
def local(run: Run, amqp_url: str) -> Run:
    """Run a command with the settings of store and broker."""

    def invoke(*words: str, stdin: str | None = None) -> Any:
        return run(*words, stdin=stdin, AMQP_URL=amqp_url, **SMALL)

    return invoke


@pytest.fixture
def remote(run: Run, amqp_url: str, tmp_path: Path) -> Iterator[RemoteDesk]:
    """Run commands over the API."""
    settings = {"AMQP_URL": amqp_url, "HOME": str(tmp_path / ".leveret"), **SMALL}
    with remote_desk(tmp_path, {f"LEVERET_{name}": value for name, value in settings.items()}) as desk:
        yield desk


@pytest.fixture
def both(local: Run, remote: RemoteDesk) -> Both:
    """Run the same command locally and over the API."""
    return lambda *words: (local(*words), remote.run(*words))
