"""``leveret store keys | rekey`` as an operator meets them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from consumer.cli.store import app
from consumer.edges.store import open_store
from consumer.settings import load_settings
from tests.support.stores import apply, shop

Run = Callable[..., Result]

OLD, NEW = "A" * 43 + "=", "B" * 42 + "E="


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command on a home without a store."""

    def invoke(*arguments: str, key: str = OLD) -> Result:
        environ = {"LEVERET_HOME": str(tmp_path / "home"), "LEVERET_STORE__KEY": key}
        return CliRunner().invoke(app, list(arguments), env=environ)

    return invoke


def rows(result: Result) -> list[tuple[bool, bool, int]]:
    """Return the listed subscriptions of each key, without ids."""
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert len({row["key"] for row in found}) == len(found)
    return [(row["at_hand"], row["first"], row["subscriptions"]) for row in found]


def test_keys_are_rotated_by_command(run: Run, tmp_path: Path) -> None:
    """List the key of each sealed secret, and seal it anew; a lost key is exit 1."""
    assert rows(run("keys", "--json")) == [(True, True, 0)]
    home = {"LEVERET_HOME": str(tmp_path / "home"), "LEVERET_STORE__KEY": OLD}
    asyncio.run(apply(open_store(load_settings(home)), shop()))

    lost = run("rekey", key=NEW)
    assert (lost.exit_code, "1 stay locked" in lost.stderr) == (1, True)
    assert rows(run("keys", "--json", key=NEW)) == [(True, True, 0), (False, False, 1)]

    done = run("rekey", "--json", key=f"{NEW} {OLD}")
    assert json.loads(done.stdout) == {"rekeyed": 1, "current": 0, "locked": 0}
    assert rows(run("keys", "--json", key=f"{NEW} {OLD}")) == [(True, True, 1), (True, False, 0)]
    assert rows(run("keys", "--json", key=NEW)) == [(True, True, 1)]
    assert run("rekey", key=NEW).stdout == "0 sealed anew, 1 already with the first key\n"


def test_no_key_is_named(run: Run) -> None:
    """The listing for people shows ids, never a key."""
    shown = run("keys")

    assert "at hand" in shown.stdout
    assert OLD[:20] not in shown.stdout
