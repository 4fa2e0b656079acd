"""No test of the settings finds a ``leveret.toml`` of the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no leveret.toml of the checkout be found."""
    monkeypatch.chdir(tmp_path)
