"""The README's first command in a fresh clone: empty HOME, no caches, no terminal.

Data flow: git clone -> ``make demo`` with its words in a file -> exit code, and the last line of its account.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.prove import Bench, Goal, Measured, Proof
from consumer.edges.private_broker.processes import find_marked

ROOT = Path(__file__).parents[2]
PAIRS = 1_000  #: deliveries at least; 30 s of 20 events a second to two endpoints each are 1,200
LIMIT_S = 1_200.0  #: set-up included
SECONDS = 30

GOALS = (
    Goal(name="demo_exit", text="0", unit="exit code", n=1),
    Goal(name="demo_unaccounted", text="0", unit="deliveries", n=PAIRS),
)

_OURS = re.compile(
    r"LEVERET_.*|PYTHON(PATH|HOME)|VIRTUAL_ENV|XDG_.*|MAKE.*|MFLAGS|DEMO|PROVE|PYTEST|WEBHOOK_SECRET"
)
"""Variables that a newcomer does not have: all of ours, of a virtual environment, and of make."""
_ACCOUNT = re.compile(r"^unaccounted: (\d+) of (\d+) deliveries$", re.MULTILINE)


def newcomer(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the environment of a newcomer: an empty HOME and no caches.

    How pip and git reach the network is left as it is.
    """
    kept = {name: value for name, value in environ.items() if not _OURS.fullmatch(name)}
    folders = kept.get("PATH", os.defpath).split(os.pathsep)
    ours = str(Path(sys.executable).parent)
    path = os.pathsep.join(folder for folder in folders if folder != ours)
    return kept | {"PATH": path, "HOME": str(home), "PIP_NO_CACHE_DIR": "1"}


def account(said: str) -> tuple[int, int]:
    """Return the last word of a demo: deliveries that are unaccounted, and all.

    Raises:
        ValueError: the output has no account; the text holds its end.
    """
    found = _ACCOUNT.findall(said)
    if not found:
        raise ValueError(f"the demo printed no account; it ended with: {said[-1500:]}")
    missing, pairs = found[-1]
    return int(missing), int(pairs)


def run(bench: Bench) -> tuple[int, str]:
    """Clone, run ``make demo``; return its exit code and its output."""
    clone, home, log = bench.folder / "clone", bench.folder / "home", bench.folder / "demo.log"
    home.mkdir()
    env = newcomer(os.environ, home)
    command = ["git", "-c", "safe.directory=*", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)]
    subprocess.run(command, env=env, check=True)
    seconds = bench.count(SECONDS, 3)
    more = [] if seconds == SECONDS else [f"DEMO=--seconds {seconds}"]
    began = time.monotonic()
    with log.open("wb") as out:
        done = subprocess.run(
            ["make", "demo", *more],
            cwd=clone,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            timeout=LIMIT_S,
            check=False,
        )
    bench.note("demo_seconds", round(time.monotonic() - began, 1))
    said = log.read_text("utf-8", "replace")
    for line in said.splitlines()[-12:]:
        bench.say(line)
    return done.returncode, said


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run it, and look for processes and files that it left behind."""
    code, said = await asyncio.to_thread(run, bench)
    missing, pairs = account(said)
    state = bench.folder / "clone" / ".leveret-demo"
    left = find_marked(f"LEVERET_HOME={state}") + find_marked(f"LEVERET_BROKER_FOLDER={state / 'broker'}")
    bench.note("demo_processes_left", len(left))
    return [
        Measured(name="demo_exit", value=code, n=1, valid=not left and not state.exists()),
        Measured(name="demo_unaccounted", value=missing, n=pairs),
    ]


PROOF = Proof("demo", GOALS, prove)
