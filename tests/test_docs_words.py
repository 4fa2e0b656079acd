"""The glossary and the architecture page use words and names of code that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from docs.generate import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PACKAGES = ("consumer", "topology", "metrics")
SECTION = re.compile(r"^## (?P<title>.+)\n\n(?P<body>(?:\* .+\n)+)", re.MULTILINE)
TERM = re.compile(r"^\* \*\*(?P<term>[^*]+)\*\*: (?P<text>.+)$", re.MULTILINE)


def sections() -> Mapping[str, dict[str, str]]:
    """Return the terms of the glossary with their texts, by section."""
    found = SECTION.finditer(GLOSSARY.read_text())
    return {each["title"]: dict(TERM.findall(each["body"])) for each in found}


@cache
def code() -> str:
    """Return the whole code of the product."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return "\n".join(path.read_text() for path in paths)


@cache
def definitions() -> frozenset[str]:
    """Return every class and function of the product, and ``Class.member`` for each member of a class."""
    names: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    names.add(node.name)
                if isinstance(node, ast.ClassDef):
                    names |= {f"{node.name}.{member}" for member in members(node)}
    return frozenset(names)


def members(node: ast.ClassDef) -> set[str]:
    """Return the methods and the annotated fields of a class."""
    methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {each.target for each in node.body if isinstance(each, ast.AnnAssign)}
    return methods | {field.id for field in fields if isinstance(field, ast.Name)}


def names_in(path: Path) -> set[str]:
    """Return every name that the prose of a page puts into code."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"`([^`\n]+)`", prose))


def test_every_term_is_explained_shortly() -> None:
    """Each entry of the glossary is one term with one to three sentences."""
    entries = re.findall(r"^\* ", GLOSSARY.read_text(), flags=re.MULTILINE)
    terms = [(term, text) for section in sections().values() for term, text in section.items()]

    assert len(terms) == len(entries) >= 40
    for term, text in terms:
        assert text.endswith("."), term
        assert 1 <= len(re.findall(r"[.:;](?: |$)", text)) <= 4, term


def test_the_terms_are_sorted() -> None:
    """The standard terms come first; within each section a reader finds a term by the alphabet."""
    assert list(sections()) == ["Standard terms", "Terms of Leveret"]
    for title, terms in sections().items():
        assert list(terms) == sorted(terms, key=str.lower), title


def test_every_term_is_used() -> None:
    """No term is defined that neither another page nor the code uses."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages if page != GLOSSARY) + code()
    plain = re.sub(r"[-_\s]+", " ", text.lower())

    for terms in sections().values():
        for term in terms:
            assert re.search(rf"\b{re.escape(term.lower().replace('-', ' '))}", plain), term


def test_the_names_of_the_glossary_exist() -> None:
    """Each name of code that the glossary gives is in the code, or is a queue that the code can name."""
    for name in names_in(GLOSSARY):
        if re.fullmatch(r"[A-Z][A-Za-z]+", name):
            assert name in definitions(), name
        family = re.fullmatch(r"leveret\.([a-z]+)(?:\.\d+)?", name)
        wanted = f".{family[1]}" if family else name.removeprefix("LEVERET_").removeprefix("leveret_")
        assert wanted in code() or wanted.lower() in code(), name


@pytest.mark.parametrize("page", [ARCHITECTURE, GLOSSARY], ids=lambda page: page.name)
def test_classes_and_functions_exist(page: Path) -> None:
    """``Class``, ``Class.method`` and ``some_function`` of the page are defined in the product."""
    for name in names_in(page):
        if re.fullmatch(r"(?:[A-Z][a-z]+)+\.[a-z_]+|(?:[A-Z][a-z]+){2,}", name):
            assert name in definitions(), name
        if page == ARCHITECTURE and re.fullmatch(r"[a-z]+(?:_[a-z]+)+", name):
            assert name in definitions(), name


def test_files_and_packages_exist() -> None:
    """Each path that the architecture page names is there, and it names every package of the product."""
    named = {name for name in names_in(ARCHITECTURE) if "/" in name and " " not in name}

    assert {name for name in named if not (ROOT / name).exists() and not name.startswith("build/")} == set()
    tops = [path.parent for path in (ROOT / "consumer").glob("*/__init__.py")]
    inner = [
        path.parent for part in ("core", "flow") for path in (ROOT / "consumer" / part).glob("*/__init__.py")
    ]
    wanted = {str(path.relative_to(ROOT)) for path in (*tops, *inner)}
    assert wanted - named == set()


def test_walks_name_where_each_step_is() -> None:
    """The class or function of a step is defined in the file that the step names."""
    text = ARCHITECTURE.read_text()
    pairs = re.findall(r"`(?:\w+\.)?(\w+)` (?:in |\()`([\w/]+\.py)`", text)
    turned = re.findall(r"[Ii]n `([\w/]+\.py)` (?:a )?`(?:\w+\.)?(\w+)`", text)

    assert len(pairs) + len(turned) >= 24
    for name, path in (*pairs, *((name, path) for path, name in turned)):
        defined = rf"^\s*(?:async )?(?:def|class) {name}\b"
        assert re.search(defined, (ROOT / path).read_text(), re.MULTILINE), name
