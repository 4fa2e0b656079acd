"""The count of the sources' rows without a test of the source's own number, and that it finds one."""

from __future__ import annotations

import ast
from pathlib import Path

from bench.history.seed_rows import (
    NUMBERS,
    PAGE,
    PROOF,
    ROOT,
    ROWS,
    Row,
    known_tests,
    literals,
    missing,
    rows_of,
)
from bench.prove import Bench, run_proof

TEST = '''
LIMIT = 5
def helper():
    return 300
def test_numbers():
    """S2-1: 0.25 is only in the docstring."""
    assert helper() == LIMIT + 1
'''


async def test_every_row_shows_the_sources_numbers(tmp_path: Path) -> None:
    """`seed_rows_short` is 0 over all 43 rows of S0 to S4."""
    [figure] = await run_proof(PROOF, Bench(tmp_path, scale=1.0))

    assert (figure.value, figure.n, figure.ok) == (0, 43, True)


def test_each_row_of_the_sources_is_looked_at() -> None:
    """No row is left out of the page or of the numbers."""
    rows = rows_of(PAGE.read_text())

    assert [row.id for row in rows] == list(NUMBERS)
    assert len(rows) == ROWS
    assert all((ROOT / proof).exists() for row in rows for proof in row.proofs)


def test_a_number_that_no_test_contains_is_found(tmp_path: Path) -> None:
    """A docstring shows nothing; constants and helpers count; a row without a test, or in part, is told."""
    (tmp_path / "test_one.py").write_text(TEST)
    tests = known_tests(tmp_path)

    assert missing(Row("S2-1", "`x.py`", ["test_numbers"]), tests) == [0.25]
    assert missing(Row("S2-1", "in part: `x.py`", ["test_numbers"]), tests) == ()
    assert missing(Row("S3-1", "`x.py`", ["test_numbers"]), tests) == ("a test",)
    assert literals(ast.parse("x = [1_000, -2.5, 'a']")).numbers == {1000.0, 2.5}
