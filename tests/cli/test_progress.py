"""The progress line of a pass over a queue appears on a terminal only, and goes away."""

from __future__ import annotations

import io
import sys

import pytest

from consumer.cli.shared.progress import FROM, Progress


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_a_long_pass_is_shown_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interfaces: the last call leaves an empty line."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    progress = Progress()

    progress.read(1, 2 * FROM)
    progress.read(2 * FROM, 2 * FROM)

    assert terminal.getvalue() == "\r\x1b[K1 of 1,000 entries read\r\x1b[K"


@pytest.mark.parametrize(("stderr", "total"), [(Terminal(), FROM - 1), (io.StringIO(), 2 * FROM)])
def test_a_short_pass_or_a_pipe_gets_none(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, total: int
) -> None:
    """Interfaces: programs read no control characters."""
    monkeypatch.setattr(sys, "stderr", stderr)

    Progress().read(1, total)

    assert stderr.getvalue() == ""
