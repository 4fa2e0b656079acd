"""Rows 20 to 54 of the faults without a test that names them.

The rows are those of docs/requirements.md; a test names its rows in its docstring: ``FAULTS 42``, ``37-40``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.prove import Bench, Goal, Measured, Proof

ROOT = Path(__file__).parents[2]
FIRST, LAST = 20, 54
ROWS = 28  #: there are

GOALS = (Goal(name="fault_rows_untested", text="0", unit="rows", n=ROWS),)

_ROW = re.compile(r"^\| (\d+) \| ", re.MULTILINE)
_NAMED = re.compile(r"FAULTS ((?:\d+(?:-\d+)?(?:, | and )?)+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def rows() -> list[int]:
    """Return the rows that there are, from the page of requirements."""
    page = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    section = page.partition("(FAULTS)")[2].partition("\n## ")[0]
    return [row for row in map(int, _ROW.findall(section)) if FIRST <= row <= LAST]


def named(text: str) -> Iterator[int]:
    """Yield every row that *text* names."""
    for group in _NAMED.findall(text):
        for first, last in _RANGE.findall(group):
            yield from range(int(first), int(last or first) + 1)


def tested() -> set[int]:
    """Return the rows that the docstring of a test names."""
    found: set[int] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found |= set(named(ast.get_docstring(node) or ""))
    return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count them."""
    wanted = rows()
    missing = sorted(set(wanted) - tested())
    bench.note("fault_rows_missing", missing)
    return [Measured(name="fault_rows_untested", value=len(missing), n=len(wanted))]


PROOF = Proof(name="rows", goals=GOALS, prove=prove)
