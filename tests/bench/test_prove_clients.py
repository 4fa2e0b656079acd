"""The proof of real clients: its own arithmetic, and programs that name no registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.hostile.client_programs import SOURCES, Program, ProgramError
from bench.hostile.clients import CLIENTS, differences, shown


def test_every_client_of_the_issue_is_there() -> None:
    """Fault 90: six, and those whose language has byte arrays publish them."""
    forms = {client.program.name: client.forms for client in CLIENTS}

    assert forms.keys() == {"go", "java", "spring", "celery", "node", "mqtt"}
    assert {name for name, each in forms.items() if "bytes" in each} == {"go", "java", "spring", "node"}
    assert {"gzip", "deflate"} <= set(forms["spring"])


def test_what_is_missing_or_comes_besides_is_said() -> None:
    """A second delivery is no less a fault than none."""
    one, other = {"type": "a"}, {"type": "b"}

    assert differences([one, other], [other, one]) == ""
    assert differences([one, other], [other]) == 'missing {"type": "a"}'
    assert differences([one], [one, one]) == 'besides {"type": "a"}'
    assert shown("x", b'{"type":"a","timestamp":"now"}', keeps_id=True) == {"type": "a", "id": "x"}


def test_a_missing_tool_and_a_failure_are_said_without_secrets(tmp_path: Path) -> None:
    """The client then counts as short, with this note."""
    missing = Program("x", "go", ("no-such-tool",), (), ())
    with pytest.raises(ProgramError, match="not on the PATH: no-such-tool"):
        missing.made(tmp_path / "out")
    failing = Program("x", "go", (), (), ("sh", "-c", 'echo "refused: $0"; exit 3'))
    with pytest.raises(ProgramError, match=r"sh ended with 3: refused: \*\*\*"):
        failing.made(tmp_path / "out").publish("amqp://u:hush@h")


def test_each_program_is_pinned() -> None:
    """Built from versions in the repository; nothing names where they come from."""
    for name in ("go/go.sum", "node/package-lock.json", "python/requirements.txt", "java/pom.xml"):
        text = (SOURCES / name).read_text()
        assert "latest" not in text.lower()
        assert "resolved" not in text
