"""Find references that lead nowhere: names that the code no longer has, documents outside the repository.

Data flow: text in backticks -> its kind by its form (path, test, setting, name) -> the code, read by ``ast``.
Text in another shape, such as a command line or a formula, is not judged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from consumer.core import schema
from consumer.settings import Settings
from topology.plan import TopologySpec, build_plan

ROOT = Path(__file__).parents[1]
CODE = ("consumer", "topology", "metrics", "bench", "demo", "grafana")
FOLDERS = (*CODE, "tests", "deploy", "docs", "scripts")

FOREIGN = frozenset(
    [
        "NaN",
        "Infinity",
        "orjson.loads",
        "getaddrinfo",
        "HOSTALIASES",
        "If-Match",
        "user_id",
        "reply_to",
        "promtool",
        "pyproject.toml",
        "basic.ack",
        "basic.get",
        "basic_publish",
        "multiple",
        "dedupe_window_s",
        "hook.example",
        "hook.example.cluster.local",
        "receiver.shop.svc.cluster.local",
    ]
)
"""Names of protocols, libraries and examples, and of one setting that was asked for and does not exist."""

_OUTSIDE = re.compile(
    r"\b(?:FAULTS|REQUIREMENTS|ARCHITECTURE|STANDARD_WEBHOOKS|STYLE)(?:\.md\b|[ ,:]*\(?\d| \()"
    r"|\b[Ii]ssue \d+|\bthe (?:issue|brief)\b|\bthe design (?:says|asks|wants|takes|has|puts|stores|keeps)\b"
)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_TICKED = re.compile(r"`([^`\n]+)`(?: in `([\w/.-]+\.py)`)?")
_PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})(?:/[\w.-]+)*/?")
_SETTING = re.compile(r"\[([\w.]+)\] (\w+)")
_NAME = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*")
_WORD = re.compile(r"[A-Za-z_][\w.-]*\w")


def stale(page: Path) -> list[str]:
    """Return each name in backticks on *page* that is in a known shape and leads nowhere."""
    return [
        text for line in _FENCED.sub("", page.read_text("utf-8")).splitlines() for text in _stale_in(line)
    ]


def outside(text: str) -> list[str]:
    """Return each reference in *text* to a document or an issue that is not in the repository."""
    return _OUTSIDE.findall(text)


def _stale_in(line: str) -> Iterator[str]:
    """Yield the stale names of one line; a bare file name belongs to the folder of the path before it."""
    folder = ROOT
    for text, file in _TICKED.findall(line):
        if _PATH.fullmatch(text) and "/" in text:
            folder = (ROOT / text).parent
            if not (ROOT / text).exists():
                yield text
        elif file:
            if not (ROOT / file).is_file() or text not in defined(ROOT / file):
                yield f"{text} in {file}"
        elif re.fullmatch(r"\w+\.py", text):
            if not (folder / text).exists():
                yield text
        elif setting := _SETTING.match(text):
            if f"{setting[1]}.{setting[2]}" not in settings():
                yield text
        elif _NAME.fullmatch(text) and text not in vocabulary():
            yield text


@cache
def settings() -> frozenset[str]:
    """Return every setting as ``section.key``."""
    return frozenset(".".join(path) for path, _ in schema.leaves(Settings))


@cache
def defined(path: Path) -> frozenset[str]:
    """Return the names that a module defines: functions, classes, ``Class.member``, constants, attributes."""
    return frozenset(_defined(ast.parse(path.read_text("utf-8")), ""))


def _defined(node: ast.AST, owner: str) -> Iterator[str]:
    """Yield what *node* and the nodes in it define; members also with their class."""
    for child in ast.iter_child_nodes(node):
        name, inside = "", owner
        match child:
            case ast.ClassDef():
                name, inside = child.name, child.name
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                name = child.name
            case ast.Name(ctx=ast.Store()):
                name = child.id
            case ast.Attribute(ctx=ast.Store()):
                name = child.attr
        if name:
            yield name
            yield f"{owner}.{name}"
        yield from _defined(child, inside)


@cache
def vocabulary() -> frozenset[str]:
    """Return every name that a page may use: defined names, words of string constants, settings, tests."""
    plan = build_plan(TopologySpec())
    words = {*FOREIGN, *(key.rpartition(".")[2] for key in settings())}
    words |= {queue.name for queue in plan.queues} | {exchange.name for exchange in plan.exchanges}
    for folder in CODE:
        for path in (ROOT / folder).rglob("*.py"):
            words |= defined(path)
            words |= set(_literal_words(ast.parse(path.read_text("utf-8"))))
    for path in (ROOT / "tests").rglob("*.py"):
        words |= {name for name in defined(path) if name.startswith("test_")}
    return frozenset(words)


def _literal_words(tree: ast.Module) -> Iterator[str]:
    """Yield the words of each string constant but those of docstrings, which may be out of date."""
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield from _WORD.findall(node.value)
