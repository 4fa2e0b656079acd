"""Rows 20 to 54 of the faults without a test that names them.

A test names its rows in its docstring: ``fault 42``, ``37-40``. A test of the proofs checks that
docs/faults.md lists just these rows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.prove import Bench, Goal, Measured, Proof

ROOT = Path(__file__).parents[2]
FIRST, LAST = 20, 54
ROWS = (
    *(20, 21, 22, 23, 24, 26, 27, 28, 29, 31, 32, 33, 34, 36, 37, 38, 39, 40),
    *(42, 43, 44, 45, 47, 49, 51, 52, 53, 54),
)
"""Every row of docs/faults.md from the first to the last; the numbers between are no rows."""

GOALS = (Goal(name="fault_rows_untested", text="0", unit="rows", n=len(ROWS)),)

_ROW = re.compile(r"^\| (\d+) \| ", re.MULTILINE)
_NAMED = re.compile(r"[Ff]aults? ((?:\d+(?:-\d+)?(?:, | and )?)+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def listed() -> list[int]:
    """Return the rows that the page of faults lists, from the first to the last that count here."""
    page = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    return [row for row in map(int, _ROW.findall(page)) if FIRST <= row <= LAST]


def named(text: str) -> Iterator[int]:
    """Yield every row that *text* names."""
    for group in _NAMED.findall(text):
        for first, last in _RANGE.findall(group):
            yield from range(int(first), int(last or first) + 1)


def tested() -> set[int]:
    """Return the rows that the docstring of a test names; tests of the proofs themselves do not count."""
    found: set[int] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.name.startswith("test_prove_"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found |= set(named(ast.get_docstring(node) or ""))
    return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count them."""
    missing = sorted(set(ROWS) - tested())
    bench.note("fault_rows_missing", missing)
    return [Measured(name="fault_rows_untested", value=len(missing), n=len(ROWS))]


PROOF = Proof(name="rows", goals=GOALS, prove=prove)
