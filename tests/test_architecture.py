"""The house style where a machine can check it: layers, sizes, and access to the outside world."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.data import ROOT

PRODUCT = ("consumer", "topology", "metrics", "demo")
ALL = (*PRODUCT, "tests", "bench", "grafana", "deploy")

FUNCTION_LINES = 40  #: without its docstring
MODULE_LINES = 400
FOLDER_FILES = 15
PARAMETERS = 5  #: without self and cls

#: Where the environment is read: the settings, the search for a RabbitMQ that tests and benches share, and
#: the demo, which hands it to the commands that it starts.
READS_ENVIRONMENT = ("consumer/settings/", "consumer/edges/private_broker/", "demo/stage.py")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(*packages: str) -> list[Path]:
    """Return every module of these packages."""
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Yield the full name of each module, or of each member of one, that this module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def named(path: Path) -> str:
    """Return the path as a reader of the repository sees it."""
    return path.relative_to(ROOT).as_posix()


def functions(*packages: str) -> Iterator[tuple[str, Function]]:
    """Yield every function and method with its place."""
    for path in modules(*packages):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield f"{named(path)}:{node.lineno} {node.name}", node


def code_lines(node: Function) -> int:
    """Count the lines of a function, decorators and docstring left out."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def parameters(node: Function) -> list[ast.arg]:
    """Return the parameters that a caller passes."""
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [each for each in every if each.arg not in ("self", "cls")]


def test_imports_point_down() -> None:
    """Every import contract of pyproject.toml holds.

    In a process of its own: the linter sets logging up, and switches off every logger there is.
    """
    linter = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run([str(linter)], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_modules_stay_readable() -> None:
    """No module has more than 400 lines; tests and proofs are no exception."""
    sizes = {named(path): len(path.read_text().splitlines()) for path in modules(*ALL)}

    assert sizes
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES} == {}


def test_folders_stay_small() -> None:
    """No folder of the product or of the tests has more than 15 Python files."""
    counts = Counter(named(path.parent) for path in modules(*PRODUCT, "tests"))

    assert counts
    assert {folder: count for folder, count in counts.items() if count > FOLDER_FILES} == {}


def test_no_test_imports_another() -> None:
    """Code that tests share is in ``tests/support``: no module imports a test module or a conftest."""
    found = [
        f"{named(path)} imports {name}"
        for path in modules(*ALL)
        for name in imported(path)
        if name.startswith("tests.")
        and any(part == "conftest" or part.startswith("test_") for part in name.split(".")[1:])
    ]

    assert found == []


def test_only_the_tests_of_the_proofs_import_them() -> None:
    """The product imports neither ``tests`` nor ``bench``; only ``tests/bench`` imports ``bench``."""
    outside = {"bench": ("bench", "tests/bench"), "tests": ("bench", "tests")}

    found = [
        f"{named(path)} imports {name}"
        for path in modules(*ALL)
        for name in imported(path)
        if (folders := outside.get(name.split(".")[0])) and not named(path).startswith(folders)
    ]

    assert found == []


def test_functions_stay_short() -> None:
    """No function has more than 40 lines of code."""
    sizes = {place: code_lines(node) for place, node in functions(*PRODUCT)}

    assert sizes
    assert {place: size for place, size in sizes.items() if size > FUNCTION_LINES} == {}


def test_functions_take_few_parameters() -> None:
    """No function has more than 5 parameters."""
    counts = {place: len(parameters(node)) for place, node in functions(*PRODUCT)}

    assert {place: count for place, count in counts.items() if count > PARAMETERS} == {}


def test_no_bool_is_passed_by_position() -> None:
    """A flag is named where it is passed; command line options are named by their flags."""
    found = [
        f"{place}({each.arg})"
        for place, node in functions(*PRODUCT)
        for each in (*node.args.posonlyargs, *node.args.args)
        if isinstance(each.annotation, ast.Name) and each.annotation.id == "bool"
    ]

    assert found == []


def test_the_environment_is_read_in_one_place() -> None:
    """Only the settings read variables."""
    readers = {
        named(path) for path in modules(*PRODUCT) if re.search(r"\bos\.(environ|getenv)\b", path.read_text())
    }

    assert readers
    assert [name for name in sorted(readers) if not name.startswith(READS_ENVIRONMENT)] == []


@pytest.mark.parametrize("package", ALL)
def test_an_exception_to_a_rule_says_which_and_why(package: str) -> None:
    """noqa and type: ignore carry a code and a reason, no cover a reason."""
    bare = re.compile(
        r"noqa(?!: [A-Z]+\d+(, ?[A-Z]+\d+)* +\S)|type: ignore(?!\[[\w-]+(, ?[\w-]+)*\] +\S)|no cover *$"
    )

    found = [
        f"{named(path)}:{token.start[0]} {token.string}"
        for path in modules(package)
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.COMMENT and bare.search(token.string)
    ]

    assert found == []
