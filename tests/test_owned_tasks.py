"""Fault 98: each task of the product has an owner, and each name of one has a series."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from consumer.flow.observe.label_values import TASKS, task_label
from consumer.ports import Source
from tests.support.data import ROOT

STARTS = {"create_task", "ensure_future", "run_coroutine_threadsafe", "Task"}
OWNER = "consumer/tasks.py"  #: reports each end that nobody expected, and starts tasks again

AWAITED = "the function that starts it waits for its end"
ANSWERS = "somebody waits for its result, and gets its error"
REPORTS = "it reports each error of its own, and nothing restarts work on one message"
WATCHED = "a callback reports its end"
RESTARTED = "it has no result; whoever needs it starts it again"

OTHERS = {
    "consumer/daemon/api_process.py": (1, AWAITED),
    "consumer/daemon/life.py": (3, AWAITED),
    "consumer/daemon/start_report.py": (1, AWAITED),
    "consumer/edges/broker/consume/acks.py": (1, WATCHED),
    "consumer/edges/broker/consume/windows.py": (1, AWAITED),
    "consumer/edges/broker/connection/connect.py": (1, AWAITED),
    "consumer/edges/broker/connection/quorum_watch.py": (1, AWAITED),
    "consumer/edges/broker/connection/server.py": (1, REPORTS),
    "consumer/edges/broker/edge.py": (2, AWAITED),
    "consumer/edges/broker/look.py": (2, AWAITED),
    "consumer/edges/doctor/in_time.py": (1, AWAITED),
    "consumer/edges/http/connect/resolver.py": (2, ANSWERS),
    "consumer/edges/http/senders/httpx_sender.py": (1, RESTARTED),
    "consumer/edges/http/senders/tokens.py": (1, ANSWERS),
    "consumer/edges/process/failpoints.py": (2, AWAITED),
    "consumer/edges/process/system.py": (1, ANSWERS),
    "consumer/edges/store/changes.py": (1, ANSWERS),
    "consumer/edges/store/database.py": (2, ANSWERS),
    "consumer/flow/deliver/dead_letters.py": (2, AWAITED),
    "consumer/flow/drain.py": (1, AWAITED),
    "consumer/flow/take/intake.py": (2, REPORTS),
    "consumer/flow/take/moves.py": (1, REPORTS),
    "consumer/web/activity_feed.py": (1, WATCHED),
    "consumer/web/app.py": (1, AWAITED),
    "consumer/web/broker_link.py": (1, ANSWERS),
    "consumer/web/serve.py": (2, AWAITED),
    "consumer/web/server.py": (1, WATCHED),
}
"""The other modules that start tasks: in how many places, and why none can end unseen."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield each module of the product with its path."""
    for path in sorted(Path(ROOT / "consumer").rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def groups(tree: ast.Module) -> set[str]:
    """Return the names of task groups, which wait for their tasks and raise their errors."""
    opened = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "TaskGroup" in ast.unparse(item.context_expr)
    }
    passed = {
        node.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) and node.annotation and "TaskGroup" in ast.unparse(node.annotation)
    }
    return opened | passed


def starts(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield each call that starts a task outside a task group."""
    known = groups(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        owner = (
            called.value.id
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)
            else ""
        )
        if name in STARTS and owner not in known:
            yield node


def test_no_task_is_without_an_owner() -> None:
    """Only the owner of tasks starts them, and modules with a reason."""
    found = {path: sum(1 for _ in starts(tree)) for path, tree in trees()}

    assert {path: count for path, count in found.items() if count and path != OWNER} == {
        path: count for path, (count, _) in OTHERS.items()
    }


def test_a_task_without_an_owner_is_found() -> None:
    """Whatever the way to start it; a task group owns its tasks."""
    unowned = ("asyncio.create_task(x())", "loop.create_task(x())", "ensure_future(x())", "asyncio.Task(x())")
    owned = "async def f():\n async with asyncio.TaskGroup() as group:\n  group.create_task(x())"

    assert all(any(starts(ast.parse(text))) for text in unowned)
    assert not any(starts(ast.parse(owned)))


def test_each_task_has_a_series() -> None:
    """The names of kept tasks and of reports are label values; those of windows share one."""
    named = set[str]()
    for path, tree in trees():
        if path.startswith("consumer/web"):
            continue  # a process of its own
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                first = node.args[0]
                if node.func.attr in ("task_failed", "keep", "run_once") and isinstance(first, ast.Constant):
                    named.add(str(first.value))
            if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
                first = node.value.elts[0]
                if path.endswith("broker/edge.py") and isinstance(first, ast.Constant):
                    named.add(str(first.value))

    assert {"control", "sizes", "quorum", "confirms", "job"} <= named
    assert {name for name in named if task_label(name) == "other"} == set()
    assert {task_label(f"window {source.value}") for source in Source} == {"window"}
    assert task_label("a stranger's") == "other"
    assert all(task_label(task) == task for task in TASKS)
