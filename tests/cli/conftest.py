"""Run a command in this process, in an empty folder, with only the given settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from consumer.cli import app
from tests.support.command_line import Run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``leveret`` with the given arguments; keywords are settings, *stdin* is its input."""
    for name in [name for name in os.environ if name.startswith("LEVERET_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def invoke(*words: str, stdin: str | bytes | None = None, **settings: str) -> Result:
        variables = {f"LEVERET_{name}": value for name, value in settings.items()}
        return CliRunner().invoke(app, list(words), env=variables, input=stdin)

    return invoke
