"""The two halves of the suite are the whole suite, and report their failures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.data import ROOT
from tests.support.halves import FIRST, HALVES, OWN_NODES, Half, run

BOTH = "def one() -> int:\n    return 1\n\n\ndef two() -> int:\n    return 2\n"


def test_the_second_half_is_what_the_first_leaves_out() -> None:
    """No test is run twice or forgotten: the second leaves out just what the first names."""
    first, second = HALVES
    named = {part for part in first.arguments if not part.startswith("-")}
    left_out = {part.removeprefix("--ignore=") for part in second.arguments if part.startswith("--ignore=")}

    assert named == left_out == set(FIRST)
    assert [path for path in FIRST if not (ROOT / path).exists()] == []
    assert [path for path in OWN_NODES if not path.exists()] == []
    assert "tests" in second.arguments


def test_what_either_half_found_counts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A failure of one half is told and fails the run; what both have covered is added up."""
    (tmp_path / "pyproject.toml").write_text('[tool.coverage.run]\nsource = ["."]\nomit = ["test_*"]\n')
    (tmp_path / "both.py").write_text(BOTH)
    for name, answer in (("one", 1), ("two", 3)):
        text = f"from both import {name}\n\n\ndef test_{name}():\n    assert {name}() == {answer}\n"
        (tmp_path / f"test_{name}.py").write_text(text)

    code = run([Half(name, (f"test_{name}.py",)) for name in ("one", "two")], tmp_path)

    said = capfd.readouterr().out
    assert code == 1
    assert re.search(r"^one +\| test_one\.py \.", said, flags=re.MULTILINE)
    assert re.search(r"^TOTAL +4 +0 +100%$", said, flags=re.MULTILINE)
    assert "FAILED test_two.py::test_two" in said
    assert said.endswith("failed: two (1)\n")
