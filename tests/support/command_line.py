"""The command line inside of the process of the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from typer.testing import Result

SHOP = {
    "tenant": "acme",
    "name": "shop",
    "url": "https://hooks.acme.example/orders?token=hush",
    "events": ["order.*"],
    "headers": {"authorization": "Bearer hush"},
}
TILL = {"tenant": "acme", "name": "till", "url": "https://till.acme.example/", "events": ["#"]}

Run = Callable[..., Result]


def rows(result: Result) -> list[dict[str, object]]:
    """Return the printed JSON objects, one per line."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def text(*entries: Mapping[str, object]) -> str:
    """Return a subscriptions file."""
    return yaml.safe_dump({"subscriptions": [dict(entry) for entry in entries]})


def kept(run: Run) -> list[dict[str, Any]]:
    """Return all stored entries, secrets included."""
    document = json.loads(run("subscriptions", "export", "--show-secrets", "--json").stdout)
    entries: list[dict[str, Any]] = document["subscriptions"]
    return entries


def error(result: Result) -> str:
    """Return the one line on stderr of a command that failed."""
    assert result.exit_code == 1, result.output
    [line] = result.stderr.splitlines()
    assert line.startswith("leveret: ")
    return line.removeprefix("leveret: ")


def flat(shown: str) -> str:
    """Return the text of a box on stderr, as one line."""
    return " ".join(shown.replace("│", " ").split())
