"""Help, examples, version and completion of every command."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from consumer.cli import app
from consumer.cli.parked import COMMANDS as PARKED
from consumer.cli.shared.lazy_commands import COMMANDS as TOP_LEVEL
from tests.support.command_line import Run
from tests.support.processes import leveret
from tests.support.processes.children import python_env
from tests.support.system.waiting import PATIENCE_S


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the arguments that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, each in inner.items():
        yield from commands(each, (*path, name))


ROOT: Any = typer.main.get_command(app)
COMMANDS = dict(commands(ROOT))


def shown_examples(words: tuple[str, ...]) -> list[str]:
    """Return the example lines of a command's help."""
    epilog: str = COMMANDS[words].epilog or ""
    return [line for line in epilog.split("\n\n") if line.startswith("leveret ")]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples_that_parse(words: tuple[str, ...]) -> None:
    """Every command has help with examples, and each example is valid for its own command."""
    shown = CliRunner().invoke(app, [*words, "--help"])
    lines = shown_examples(words)

    assert shown.exit_code == 0
    assert "Examples:" in shown.stdout
    assert lines
    for line in lines:
        first, *rest = shlex.split(line.split(" | ")[0].split(" > ")[0].split(" < ")[0])
        assert (first, *rest[: len(words)]) == ("leveret", *words)
        COMMANDS[words].make_context("leveret", rest[len(words) :])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_listing_takes_json(words: tuple[str, ...]) -> None:
    """Outside contract, CLI: every command has --json, except the daemon and those that print a file."""
    options = {option for parameter in COMMANDS[words].params for option in parameter.opts}

    as_it_is = {
        ("run",),
        ("serve",),
        ("alerts",),
        ("parked", "export"),
        ("topology", "export"),
        ("subscriptions", "schema"),
    }
    assert ("--json" in options) == (words not in as_it_is)


def test_the_list_of_words_says_what_each_says_of_itself() -> None:
    """The help of a lazy command is copied beside the name of its module, so the copies must be equal."""
    for group, copies in ((ROOT, TOP_LEVEL), (ROOT.commands["parked"], PARKED)):
        own = {
            name: command.help.split("\n\n")[0].replace("\n", " ") for name, command in group.commands.items()
        }

        assert own == {name: command.help for name, command in copies.items()}


def test_help_waits_for_no_library(tmp_path: Path) -> None:
    """The top-level help is printed before any library of a command is imported."""
    code = (
        "import sys; from consumer.cli import main\n"
        "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    argv = [sys.executable, "-c", code, "--help"]

    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=True)

    assert [name for name in TOP_LEVEL if f" {name} " not in done.stdout] == []
    assert {"aiohttp", "aio_pika", "httpx2", "pydantic", "sqlalchemy"}.isdisjoint(done.stderr.split())


def test_a_purge_asks_and_without_a_terminal_wants_a_yes(run: Run) -> None:
    """S1-4: without a terminal no question is possible, so nothing is removed; wrong usage exits with 2."""
    refused = run("parked", "purge", "--older-than", "0s")

    assert refused.exit_code == 2
    assert "--yes" in refused.stderr


def test_version(run: Run) -> None:
    """A bug report begins with the version."""
    assert run("--version").stdout.startswith("leveret ")


def complete(folder: Path, *words: str) -> list[str]:
    """Return the completions that bash would offer for the last word."""
    asked = {
        "_LEVERET_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("leveret", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = leveret.run(env=python_env() | asked, cwd=folder)
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_names(run: Run, tmp_path: Path) -> None:
    """Commands, subscriptions and policies are completed; a broken setting completes nothing."""
    run("subscriptions", "add", "https://a.example/", "--event", "#", "--tenant", "acme", "--name", "shop")
    run("subscriptions", "add", "https://b.example/", "--event", "#", "--tenant", "globex", "--name", "till")

    assert complete(tmp_path, "sub") == ["subscriptions"]
    assert complete(tmp_path, "subscriptions", "show", "ac") == ["acme/shop"]
    assert complete(tmp_path, "policy", "show", "st") == ["standard-webhooks"]
    (tmp_path / "leveret.toml").write_text("no_such_setting = 1\n")
    assert complete(tmp_path, "policy", "show", "st") == []
    assert complete(tmp_path, "subscriptions", "show", "") == []


def test_bash_can_install_completion(tmp_path: Path) -> None:
    """`leveret --install-completion bash` writes a script that bash reads."""
    program = Path(sys.executable).with_name("leveret")
    env = os.environ | {"HOME": str(tmp_path), "SHELL": "/bin/bash"}

    # It asks which shell it was called from, so it is called from one.
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(str(program))} --install-completion bash; exit $?"],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    [script] = tmp_path.rglob("leveret.sh")
    assert "bash completion installed in" in done.stdout
    check = f"source {shlex.quote(str(script))} && complete -p leveret"
    found = subprocess.run(
        ["bash", "-c", check], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert "leveret" in found.stdout
