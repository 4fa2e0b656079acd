"""Count the rows of docs/requirements.md that claim full support without a test of the source's own number.

Data flow: rows S0-1 ... S4-3 -> the tests that each names and that name its id -> their literals, those of
the constants, helpers and data files that they use, without docstrings -> compared with :data:`NUMBERS`.

A row that begins with "in part" or "later" claims no full support. A row whose number only a measurement can
show says "measured:" and names the module of the proof, which has to contain the number.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.prove import Bench, Goal, Measured, Proof

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "requirements.md"
DATA: Final = ROOT / "tests" / "data"
ROWS: Final = 43

Number = float | str

CODES: Final = (400, 406, 411, 413, 414, 415, 422, 431, 501, 505, 401, 403, 404, 405, 407, 408, 421, 425, 429)

#: The numbers of each row of the sources; a text is part of a literal text. Empty: the source has no number.
NUMBERS: Final[Mapping[str, Sequence[Number]]] = {
    "S0-1": (1000, 2, 60_000, 5, 0.1),
    "S0-2": (1000, 2000, 4000, 8000, 15_000, 10_000, 9000),
    "S0-3": (500, 1000, 2000, 6000, 18_000, 54_000, 5000),
    "S0-4": (24, 64),
    "S0-5": (),
    "S0-6": ("1000ms", "2x", "±10%", "15000ms", "exponential", "maxAttempts"),
    "S0-7": (299, 300),
    "S0-8": (),
    "S0-9": (),
    "S0-10": (1.5, 2.5, 0.8),
    "S1-1": (0.75, 1.25, 45, 75),
    "S1-2": (5,),
    "S1-3": (),
    "S1-4": (604_800_000, 10_000),
    "S1-5": (),
    "S1-6": ("> 100", "> 0.02", "> 50", "> 0.8", "> 0.9"),
    "S1-7": (*CODES, 500, 502, 503, 504, 410),
    "S1-8": (3, 5, 1, 2),
    "S1-9": (),
    "S1-10": (),
    "S1-11": (100, 60, 5),
    "S1-12": (),
    "S1-13": (),
    "S1-14": ("≤ 1", "≤ 5", "≤ 50", "≤ 250", "≤ 2048", "≤ 3072"),
    "S1-15": (86_400,),
    "S1-16": (),
    "S1-17": (),
    "S2-1": (1, 300, 0.25, 5),
    "S2-2": (3, 0.5, 30, 5, 1, 300),
    "S2-3": (),
    "S2-4": ("> 0.1", "> 100", "> 300"),
    "S2-5": (),
    "S2-6": (),
    "S2-7": (),
    "S3-1": (5, 30),
    "S3-2": (),
    "S3-3": (),
    "S3-4": (1000, 2000, 4000),
    "S3-5": (),
    "S3-6": (10, 60, 2, 1, 3, 20, 120, 5),
    "S4-1": (1000, 2000, 4000, 8000, 3_600_000, 0.1),
    "S4-2": (429, 500),
    "S4-3": (1000,),
}

GOALS = (Goal(name="seed_rows_short", text="0", unit="rows", n=ROWS),)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the page."""

    id: str
    where: str
    tests: Sequence[str]

    @property
    def is_full(self) -> bool:
        """Return whether the row claims full support."""
        return not self.where.startswith(("in part", "later"))

    @property
    def proofs(self) -> Sequence[str]:
        """Return the modules of the proofs that measure the number; empty if tests show it."""
        _, measured, names = self.where.partition("measured:")
        return re.findall(r"`(bench/[\w/]+\.py)`", names) if measured else ()


@dataclass(frozen=True, slots=True)
class Literals:
    """The numbers and texts in some code."""

    numbers: set[float] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)  #: rows that the docstring names

    def add(self, value: object) -> None:
        """Take a literal, or every value of a JSON document."""
        if isinstance(value, Mapping):
            self.add([*value.keys(), *value.values()])
        elif isinstance(value, list):
            for each in value:
                self.add(each)
        elif isinstance(value, str):
            self.texts.add(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self.numbers.add(float(value))

    def has(self, number: Number) -> bool:
        """Return whether *number* is among them."""
        if isinstance(number, str):
            return any(number in text for text in self.texts)
        return float(number) in self.numbers


def rows_of(text: str) -> Sequence[Row]:
    """Return the rows S0-1 to S4-3 of the page."""
    found = re.findall(r"^\| (S\d-\d+) \| .*? \| (.*?) \| (.*?) ?\|$", text, flags=re.MULTILINE)
    return [Row(name, where, re.findall(r"`(test_\w+)`", tests)) for name, where, tests in found]


def missing(row: Row, tests: Mapping[str, Literals]) -> Sequence[Number]:
    """Return the source's numbers that neither the tests nor the proofs of *row* contain."""
    if not row.is_full:
        return ()
    proofs = [literals(ast.parse((ROOT / name).read_text())) for name in row.proofs]
    shown = [*proofs, *(tests[name] for name in row.tests if name in tests and row.id in tests[name].ids)]
    if not shown:
        return ("a test",)
    return [number for number in NUMBERS[row.id] if not any(each.has(number) for each in shown)]


def known_tests(folder: Path) -> Mapping[str, Literals]:
    """Return the literals of each test, with those of what it uses of its module, by its name."""
    found: dict[str, Literals] = {}
    for path in sorted(folder.rglob("test_*.py")):
        module = ast.parse(path.read_text("utf-8"))
        parts = dict(_parts(module))
        for name, node in parts.items():
            if name.startswith("test_"):
                found[name] = literals(node, parts, found.get(name))
                found[name].ids.update(re.findall(r"\bS\d-\d+\b", _docstring(node)))
    return found


def literals(
    node: ast.AST, parts: Mapping[str, ast.AST] | None = None, into: Literals | None = None
) -> Literals:
    """Return the literals of *node*, and those of the *parts* of its module that it names, however deep."""
    found, seen, left = into or Literals(), set[str](), [node]
    while left:
        for each in _code(left.pop()):
            if isinstance(each, ast.Constant):
                found.add(each.value)
                if isinstance(each.value, str) and each.value.endswith(".json"):
                    _add_file(found, DATA / each.value)
            elif isinstance(each, ast.Name) and each.id not in seen and parts and each.id in parts:
                seen.add(each.id)
                left.append(parts[each.id])
    return found


def _docstring(node: ast.AST) -> str:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    return ast.get_docstring(node) or ""


def _add_file(found: Literals, path: Path) -> None:
    if path.exists():
        found.add(json.loads(path.read_text("utf-8")))


def _parts(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions, classes and constants of a module by name."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((target.id, node) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and everything in it, without texts that stand alone, such as docstrings."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from _code(child)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count the short rows, and note what each one lacks."""
    rows, tests = rows_of(PAGE.read_text("utf-8")), known_tests(ROOT / "tests")
    short = {row.id: lacks for row in rows if (lacks := missing(row, tests))}
    bench.note("seed_rows_short_found", {name: list(map(str, lacks)) for name, lacks in short.items()})
    return [Measured(name="seed_rows_short", value=len(short), n=len(rows))]


PROOF = Proof("seed-rows", GOALS, prove)
