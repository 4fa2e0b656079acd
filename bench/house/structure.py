"""Count the marks of a tree that is hard to read: full folders, long files, late attributes, cycles.

Data flow: the tracked files -> ast and the import graph -> counts; each finding is noted by its place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from bench.prove import Bench, Goal, Measured, Proof

ROOT = Path(__file__).parents[2]
PRODUCT = ("consumer", "topology", "metrics", "demo")
READ = (*PRODUCT, "tests", "bench")
MOST_FILES = 15
MOST_LINES = 400

GOALS = (
    Goal(name="rooms_over_15_files", text="0", unit="folders", n=10),
    Goal(name="files_over_400_lines", text="0", unit="files", n=100),
    Goal(name="late_attributes", text="0", unit="assignments", n=100),
    Goal(name="cycles", text="0", unit="cycles", n=100),
)

Trees = Mapping[Path, ast.Module]


def modules(*folders: str) -> list[Path]:
    """Return the Python files below *folders*, relative to the root."""
    return sorted(path.relative_to(ROOT) for name in folders for path in (ROOT / name).rglob("*.py"))


def parsed(paths: Sequence[Path]) -> Trees:
    """Return each file with its syntax tree."""
    return {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in paths}


def crowded(paths: Sequence[Path]) -> list[str]:
    """Return the folders with more than :data:`MOST_FILES` Python files."""
    folders = [path.parent for path in paths]
    return sorted({str(folder) for folder in folders if folders.count(folder) > MOST_FILES})


def long_files(paths: Sequence[Path]) -> list[str]:
    """Return the files with more than :data:`MOST_LINES` lines."""
    lines = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in paths}
    return [f"{path}: {count}" for path, count in lines.items() if count > MOST_LINES]


def stores(node: ast.AST) -> Iterator[ast.Attribute]:
    """Yield every attribute that the statement *node* assigns."""
    found: Sequence[ast.expr] = ()
    if isinstance(node, ast.Assign):
        found = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        found = (node.target,)
    for target in found:
        for each in ast.walk(target):
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                yield each


def is_own(attribute: ast.Attribute) -> bool:
    """Return whether the attribute belongs to ``self`` or ``cls``."""
    return isinstance(attribute.value, ast.Name) and attribute.value.id in ("self", "cls")


def declared(node: ast.ClassDef) -> frozenset[str]:
    """Return the attributes that a class declares in its body or assigns in its methods."""
    names = {
        n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    for each in ast.walk(node):
        names |= {attribute.attr for attribute in stores(each) if is_own(attribute)}
    return frozenset(names)


def late(trees: Trees) -> list[str]:
    """Return every assignment to an attribute of our classes that happens outside the class."""
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    ours = frozenset().union(*(declared(node) for node in classes))
    return [
        f"{path}:{found.lineno} {ast.unparse(found)}"
        for path, tree in trees.items()
        for found in _late_below(tree, ours, (), foreign_imports(tree))
    ]


def _late_below(
    node: ast.AST, ours: frozenset[str], around: tuple[frozenset[str], ...], foreign: frozenset[str]
) -> Iterator[ast.Attribute]:
    for child in ast.iter_child_nodes(node):
        inner = (*around, declared(child)) if isinstance(child, ast.ClassDef) else around
        of_libraries = foreign
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            of_libraries = foreign | foreign_objects(child, foreign)
        for attribute in stores(child):
            known = any(attribute.attr in names for names in around) or root(attribute) in foreign
            if attribute.attr in ours and not known and not is_own(attribute):
                yield attribute
        yield from _late_below(child, ours, inner, of_libraries)


def foreign_imports(tree: ast.Module) -> frozenset[str]:
    """Return the names that a module imports from libraries."""
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] not in PRODUCT
        for alias in node.names
    )


def foreign_objects(function: ast.FunctionDef | ast.AsyncFunctionDef, foreign: frozenset[str]) -> set[str]:
    """Return the names of a function's objects of libraries; no class of ours declares their attributes.

    They are parameters of such a class, results of its calls, and parts of either.
    """
    named = {
        each.arg for each in function.args.args if each.annotation and _names(each.annotation) <= foreign
    }
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if root(value) in foreign | named:
                named.add(name)
            case ast.For(target=target, iter=value) if root(value) in foreign | named:
                named |= _names(target)
            case _:
                pass
    return named


def root(node: ast.expr) -> str | None:
    """Return the name with which an expression of attributes, items and calls begins."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - {"type"}


def imports(trees: Trees) -> dict[str, set[str]]:
    """Return which of our modules each module imports, anywhere in the file."""
    names = {dotted(path) for path in trees}
    found: dict[str, set[str]] = {}
    for path, tree in trees.items():
        mine = found.setdefault(dotted(path), set())
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module), names=taken, level=0):
                    for alias in taken:
                        deep = f"{module}.{alias.name}"
                        mine.add(deep if deep in names else module)
                case ast.Import(names=taken):
                    mine.update(alias.name for alias in taken)
                case _:
                    pass
        mine &= names - {dotted(path)}
    return found


def dotted(path: Path) -> str:
    """Return the name under which the module at *path* is imported."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """Return import cycles, each cut before the next is sought, until none is left."""
    left = {name: set(imported) for name, imported in graph.items()}
    found: list[str] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            around: list[str] = error.args[1]
            found.append(" <- ".join(around))
            left[around[1]].discard(around[0])
        else:
            return found


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count, and note each finding."""
    product, every = modules(*PRODUCT), modules(*READ)
    trees = parsed(product)
    findings = {
        "rooms_over_15_files": crowded(product),
        "files_over_400_lines": long_files(every),
        "late_attributes": late(trees),
        "cycles": cycles(imports(trees)),
    }
    sizes = {
        "rooms_over_15_files": len({path.parent for path in product}),
        "files_over_400_lines": len(every),
        "late_attributes": len(product),
        "cycles": len(product),
    }
    for name, found in findings.items():
        bench.note(f"{name}_found", found)
    return [Measured(name=name, value=len(found), n=sizes[name]) for name, found in findings.items()]


PROOF = Proof("structure", GOALS, prove)
