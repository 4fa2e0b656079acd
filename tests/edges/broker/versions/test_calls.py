"""No call of ours asks for anything that RabbitMQ 4.3 refuses, or that counts otherwise there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.data import ROOT

OURS = ("consumer", "topology", "demo", "bench", "deploy")

GIVES_BACK = {
    "consumer/edges/broker/consume/acks.py",  # unstarted messages; a failure of ours is rejected instead
    "consumer/edges/broker/look.py",
    "consumer/edges/broker/store_record.py",
    "bench/look_methods.py",
}
"""Modules that give messages back without counting it as a failure."""

REMOVED = ("x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-ha-policy")
"""Arguments that 4.x refuses. Source: release notes of 4.0 and 4.3."""


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of a function or method with one of *names*, and its module."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in names and isinstance(node, ast.Call):
                yield path.relative_to(ROOT).as_posix(), node


def sources() -> list[Path]:
    """Return all modules that connect to a broker, or may."""
    return sorted(path for package in OURS for path in (ROOT / package).rglob("*.py"))


def set_true(call: ast.Call) -> set[str]:
    """Return the keywords that are True in *call*."""
    return {
        each.arg or "" for each in call.keywords if isinstance(each.value, ast.Constant) and each.value.value
    }


def test_no_queue_is_transient_and_shared() -> None:
    """4.3 refuses to declare a queue that is neither durable nor exclusive."""
    found = list(calls("queue_declare", "declare_queue"))

    assert found
    assert [
        f"{module}:{call.lineno}"
        for module, call in found
        if not set_true(call) & {"durable", "exclusive", "passive"}
    ] == []


def test_no_prefetch_is_global() -> None:
    """4.3 refuses a prefetch for a whole channel; quorum queues never took one."""
    found = list(calls("basic_qos", "set_qos"))

    assert found
    assert [
        f"{m}:{c.lineno}" for m, c in found if {k.arg for k in c.keywords} & {"global_", "all_channels"}
    ] == []


def test_only_known_places_give_back_without_a_failure() -> None:
    """4.3 counts ``basic.reject`` towards the delivery limit, and ``basic.nack`` no more."""
    assert {module for module, _ in calls("basic_nack", "nack")} <= GIVES_BACK


def test_no_removed_argument_is_used() -> None:
    """A declaration with one of them fails."""
    texts = {path: path.read_text() for path in sources()}

    assert [str(path) for path, text in texts.items() if any(word in text for word in REMOVED)] == []
