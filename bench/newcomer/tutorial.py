"""Run every command block of the tutorial, in its order, in one shell and a fresh folder.

Data flow: docs/tutorial.md -> its ``sh`` blocks -> one bash script that stops at the first command that fails
-> how many blocks came to their end.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.children import free_port, python_env

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCKS = 11  #: of the page, at least
LIMIT_S = 300.0
DONE = "@@ came to its end:"

GOALS = (Goal(name="tutorial_failures", text="0", unit="blocks", n=BLOCKS),)

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PORTS = ("8080", "9000")  #: as the page has them; a free one is taken for each


@dataclass(frozen=True, slots=True)
class Walk:
    """How far the tutorial came."""

    blocks: int
    ended: int  #: blocks whose every command succeeded
    said: str  #: the output of all of them


def blocks(text: str) -> list[str]:
    """Return the command blocks of the page, in order."""
    return _BLOCK.findall(text)


def script(parts: Sequence[str]) -> str:
    """Return one bash script that ends at the first failing command, and ends the processes it started."""
    lines = [
        "set -eu",
        "trap 'jobs -p | xargs -r kill 2>/dev/null; leveret broker stop >/dev/null 2>&1' EXIT",
    ]
    for number, part in enumerate(parts, 1):
        lines += [part, f"echo '{DONE} {number}'"]
    return "\n".join(lines)


def walk(text: str, folder: Path, env: Mapping[str, str] | None = None) -> Walk:
    """Run the page *text*.

    Args:
        text: Of the page.
        folder: Where its fresh folder is made, and its output kept.
        env: The environment; None is this one without any setting of ours.
    """
    for port in _PORTS:
        text = text.replace(port, str(free_port()))
    parts, log = blocks(text), folder / "tutorial.log"
    temporary = folder / "tmp"
    temporary.mkdir()
    listen = f"127.0.0.1:{free_port()}"
    variables = {**(python_env() if env is None else env), "TMPDIR": str(temporary), "LEVERET_LISTEN": listen}
    with log.open("wb") as out:
        shell = subprocess.Popen(
            ["bash", "-c", script(parts)],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            shell.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait(60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    said = log.read_text("utf-8", "replace")
    return Walk(blocks=len(parts), ended=said.count(DONE), said=said)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Count the blocks that did not finish."""
    bench.folder.mkdir(parents=True, exist_ok=True)
    found = await asyncio.to_thread(walk, TUTORIAL.read_text("utf-8"), bench.folder)
    for line in found.said.splitlines()[-6:]:
        bench.say(line)
    return [Measured(name="tutorial_failures", value=found.blocks - found.ended, n=found.blocks)]


PROOF = Proof("tutorial", GOALS, prove)
