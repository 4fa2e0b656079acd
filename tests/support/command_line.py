"""The command line inside of the process of the test."""

from __future__ import annotations

import json
from collections.abc import Callable

from typer.testing import Result

Run = Callable[..., Result]


def rows(result: Result) -> list[dict[str, object]]:
    """Return the objects that were printed, one per line."""
    return [json.loads(line) for line in result.stdout.splitlines()]
