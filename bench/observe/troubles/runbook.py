"""Read a section of the runbook as an operator does, and run its commands with the names of the alert.

Data flow: docs/runbook.md -> :func:`section` -> lines with their commands -> names filled in -> a shell.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from docs.runbook_page import slug
from tests.support.repository.runbook import RUNBOOK

PROGRAMS = ("leveret ", "rabbitmqctl ", "sh ")
COMMENT = re.compile(r"\s+#\s.*$")
STEP = re.compile(r"^(\d+\.) ")
CODE = re.compile(r"`([^`]+)`")
FOLLOWS = "leveret tail"  #: begin of a command that ends with Ctrl-C
SHELL = ("env", "--default-signal=INT", "bash", "-o", "pipefail", "-c")  # a background job ignores Ctrl-C
FOLLOW_S = 6.0
COMMAND_S = 60.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a section.

    Attributes:
        labels: ``block 1`` for the first block of commands, ``2.`` for a step, for a row the codes of its
            first cell.
        commands: In order.
    """

    labels: frozenset[str]
    commands: Sequence[str]


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    command: str
    code: int
    output: str


def section(anchor: str, page: str = RUNBOOK) -> list[Line]:
    """Return the lines of a section.

    Raises:
        LookupError: the page has no such section.
    """
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        if slug(heading) == anchor:
            return list(_lines(text))
    raise LookupError(f"the runbook has no section {anchor}")


def _lines(text: str) -> Iterator[Line]:
    blocks = re.split(r"^```\w*\n", text, flags=re.MULTILINE)
    for number, block in enumerate(blocks):
        if number % 2:
            joined = re.sub(r"\|\n\s*", "| ", block)
            commands = [COMMENT.sub("", each).strip() for each in joined.splitlines()]
            yield Line(frozenset({f"block {number // 2 + 1}"}), [each for each in commands if each])
            continue
        for line in block.splitlines():
            step = STEP.match(line)
            cell = line.split("|")[1] if line.startswith("|") else ""
            labels = {step[1]} if step else set(CODE.findall(cell))
            commands = [code for code in CODE.findall(line) if code.startswith(PROGRAMS)]
            yield Line(frozenset(labels), commands)


def chosen(lines: Sequence[Line], label: str, start: str = "") -> list[str]:
    """Return the commands of the line with *label* that begin with *start*.

    Raises:
        LookupError: there is no such line, or no command begins so.
    """
    found = [line for line in lines if label in line.labels]
    commands = [each for line in found for each in line.commands if each.startswith(start)]
    if not found or (start and not commands):
        raise LookupError(f"the section has no line {label!r} with a command {start!r}")
    return commands


def filled(command: str, labels: Mapping[str, str]) -> str:
    """Put the names of an alert in the place of the examples: acme/shop, acme, "shop", leveret.wait.2000."""
    subscription = labels.get("subscription", "acme/shop")
    tenant = labels.get("tenant", subscription.partition("/")[0])
    command = command.replace("leveret.wait.2000", labels.get("queue", "leveret.wait.2000"))
    command = command.replace('"shop"', f'"{subscription.partition("/")[2]}"')
    return re.sub(r"\bacme\b", tenant, command.replace("acme/shop", subscription))


async def run(command: str, environment: Mapping[str, str], folder: Path, follow_s: float = FOLLOW_S) -> Done:
    """Run a command in a shell; one that follows is ended with Ctrl-C after *follow_s*.

    No process of the command outlives this call, even if it is cancelled.
    """
    process = await asyncio.create_subprocess_exec(
        *SHELL,
        command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    reading = asyncio.create_task(process.communicate())
    try:
        if command.startswith(FOLLOWS):
            await asyncio.wait([reading], timeout=follow_s)
            _signal(process.pid, signal.SIGINT)
        await asyncio.wait([reading], timeout=COMMAND_S)
    finally:
        if not reading.done():
            _signal(process.pid, signal.SIGKILL)
    output, _ = await reading
    return Done(command, process.returncode or 0, output.decode(errors="replace"))


def _signal(group: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a command that still run."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
