"""The parts of the suite are the whole suite, and report their failures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.data import ROOT
from tests.support.parts import NAMED, PARTS, Part, run

BOTH = "def one() -> int:\n    return 1\n\n\ndef two() -> int:\n    return 2\n"


def test_the_last_part_is_what_the_others_leave_out() -> None:
    """No test is run twice or forgotten: the last part leaves out just what the others name."""
    *others, last = (part.arguments for part in PARTS)
    named = [word for words in others for word in words if not word.startswith("-")]
    left_out = [word.removeprefix("--ignore=") for word in last if word.startswith("--ignore=")]

    assert named == left_out == [path for paths in NAMED for path in paths]
    assert len(named) == len(set(named))
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert "tests" in last


def test_what_each_part_found_counts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A failure of one part is told and fails the run; what all have covered is added up."""
    (tmp_path / "pyproject.toml").write_text('[tool.coverage.run]\nsource = ["."]\nomit = ["test_*"]\n')
    (tmp_path / "both.py").write_text(BOTH)
    for name, answer in (("one", 1), ("two", 3)):
        text = f"from both import {name}\n\n\ndef test_{name}():\n    assert {name}() == {answer}\n"
        (tmp_path / f"test_{name}.py").write_text(text)

    code = run([Part(name, (f"test_{name}.py",)) for name in ("one", "two")], tmp_path, covered=True)

    said = capfd.readouterr().out
    assert code == 1
    assert re.search(r"^one +\| test_one\.py \.", said, flags=re.MULTILINE)
    assert re.search(r"^TOTAL +4 +0 +100%$", said, flags=re.MULTILINE)
    assert "FAILED test_two.py::test_two" in said
    assert said.endswith("failed: two (1)\n")
