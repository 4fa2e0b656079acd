"""The frame of every ``make prove-NAME``: goals, figures, the JSON file, the table, the exit code.

Data flow: a proof measures -> Measured -> judge(goal) -> Figure -> build/prove-NAME.json and a table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.support.broker.load import quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The value that a figure has to reach, and over how many cases at least."""

    name: str
    text: str  #: as the requirement writes it: ``0``, ``≤ 30``, ``≥ 0.70``
    unit: str
    n: int  #: fewer cases than this and the figure is short, so not ok

    def met(self, value: float) -> bool:
        """Return whether *value* reaches the goal; a bare number means "exactly"."""
        sign, _, rest = self.text.rpartition(" ")
        limit = float(rest)
        if sign == "≤":
            return value <= limit
        if sign == "≥":
            return value >= limit
        return value == limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The value of a proof for one goal."""

    name: str
    value: float
    n: int  #: cases that were checked
    goal: str = ""  #: where the goal's limit is itself measured: that limit, such as ``≤ 41.5``
    valid: bool = True  #: False when a condition of the measurement itself did not hold
    at_most: float | None = None  #: the goal's limit where it follows from another measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of ``build/prove-NAME.json``."""

    name: str
    value: float | None  #: None: the proof broke before it measured anything
    goal: str
    unit: str
    n: int
    seconds: float
    ok: bool


@dataclass(slots=True)
class Bench:
    """The settings of a run of proofs.

    Attributes:
        folder: A private folder, emptied before each proof.
        scale: 1 is the real thing; smaller shrinks every count, and every figure is then short.
        broker_version: Start of the RabbitMQ server's version; another version ends the run.
        amqp_url: Of an empty vhost on a node that runs already, for a proof in small that does not stop its
            broker; empty: each proof starts a node of its own.
        management_url: Of that node, with user and password.
        cases: Names of the cases to which a proof of several is limited; empty: all.
        suffix: Ends the name of each figure, where one file holds the figures of several brokers.
        notes: Further measurements, printed and kept beside the figures.
    """

    folder: Path
    scale: float = 1.0
    broker_version: str = ""
    amqp_url: str = ""
    management_url: str = ""
    suffix: str = ""
    cases: Sequence[str] = ()
    notes: dict[str, object] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def count(self, full: int, least: int = 1) -> int:
        """Return *full* shrunk by the scale, at least *least*."""
        return max(least, round(full * self.scale))

    def say(self, text: str) -> None:
        """Print one line of progress, with the seconds since the start."""
        print(f"  [{time.monotonic() - self.started:7.1f} s] {text}", file=sys.stderr, flush=True)

    def note(self, name: str, value: object) -> None:
        """Keep and print a measurement that is no figure."""
        self.notes[name] = value
        self.say(f"{name} = {value}")


Prove = Callable[[Bench], Awaitable[Sequence[Measured]]]


@dataclass(frozen=True, slots=True)
class Proof:
    """A named proof: the goals that it answers and the coroutine that measures them."""

    name: str
    goals: Sequence[Goal]
    prove: Prove


def judge(goal: Goal, measured: Measured | None, seconds: float) -> Figure:
    """Compare the measured value with *goal*; without a value, or with too few cases, it is not ok."""
    if measured is not None and measured.at_most is not None:
        goal = replace(goal, text=f"≤ {measured.at_most:g}")
    value = None if measured is None else measured.value
    n = 0 if measured is None else measured.n
    valid = measured is not None and measured.valid
    if measured is not None and measured.goal:
        goal = replace(goal, text=measured.goal)
    ok = value is not None and valid and n >= goal.n and goal.met(value)
    return Figure(
        name=goal.name,
        value=value,
        goal=goal.text,
        unit=goal.unit,
        n=n,
        seconds=round(seconds, 1),
        ok=ok,
    )


async def run_proof(proof: Proof, bench: Bench) -> list[Figure]:
    """Run *proof* in its own folder; one that raises still yields its figures, none of them ok."""
    shutil.rmtree(bench.folder, ignore_errors=True)
    bench.folder.mkdir(parents=True)
    bench.say(f"--- {proof.name}")
    began = time.monotonic()
    found: dict[str, Measured] = {}
    try:
        found = {measured.name: measured for measured in await proof.prove(bench)}
    except Exception:
        traceback.print_exc()
        bench.notes[f"{proof.name}_error"] = traceback.format_exc(limit=3)
    seconds = time.monotonic() - began
    figures = [judge(goal, found.get(goal.name), seconds) for goal in proof.goals]
    return [replace(figure, name=figure.name + bench.suffix) for figure in figures]


def run(proofs: Sequence[Proof], *, bench: Bench, output: Path, complete: bool) -> int:
    """Run *proofs* one after the other, write and print their figures.

    Args:
        proofs: In the order of running.
        bench: Folder and scale.
        output: Where the figures go, such as ``build/prove-core.json``; the notes go beside it.
        complete: False when names were left out or the scale is not 1: then ``-part`` is added
            to the file's name, so that it never passes for the whole.

    Returns:
        The exit code: 0 only when every figure is ok.
    """
    figures: list[Figure] = []
    path = output if complete else output.with_stem(f"{output.stem}-part")
    notes = path.with_stem(f"{path.stem}-notes{bench.suffix}")
    earlier = of_other_brokers(path, bench.suffix)
    for proof in proofs:
        figures += asyncio.run(run_proof(proof, bench))
        write(path, [*earlier, *figures])
        write_notes(notes, bench.notes)
    show(figures)
    print(f"RabbitMQ {bench.notes.get('rabbitmq', 'was not started')}; {path}")
    return 0 if figures and all(figure.ok for figure in figures) else 1


def of_other_brokers(path: Path, suffix: str) -> Sequence[Figure]:
    """Return the figures in *path* that a run with *suffix* keeps: without a suffix the file begins anew."""
    if not suffix or not path.exists():
        return ()
    rows = [Figure(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    return [figure for figure in rows if not figure.name.endswith(suffix)]


def write(path: Path, figures: Sequence[Figure]) -> None:
    """Write *figures* as a JSON list, one row a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n ".join(json.dumps(asdict(figure), ensure_ascii=False) for figure in figures)
    path.write_text(f"[{rows}]\n", encoding="utf-8")


def write_notes(path: Path, notes: Mapping[str, object]) -> None:
    """Write the further measurements beside the figures."""
    path.write_text(json.dumps(notes, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")


def show(figures: Sequence[Figure]) -> None:
    """Print *figures* as a table."""
    table = Table("name", "value", "goal", "unit", "n", "seconds", "ok")
    for figure in figures:
        value = "none" if figure.value is None else f"{figure.value:g}"
        verdict = "ok" if figure.ok else "NOT OK"
        table.add_row(
            figure.name, value, figure.goal, figure.unit, str(figure.n), f"{figure.seconds:g}", verdict
        )
    Console(width=110).print(table)


def chosen(proofs: Sequence[Proof], names: Sequence[str]) -> list[Proof]:
    """Return those of *proofs* that *names* name, by their own name or by a figure's; all for none.

    Raises:
        SystemExit: a name is unknown (exit code 2).
    """
    if not names:
        return list(proofs)
    picked = {
        name: [p for p in proofs if name == p.name or name in {g.name for g in p.goals}] for name in names
    }
    unknown = [name for name, found in picked.items() if not found]
    if unknown:
        print(
            f"no such proof: {', '.join(unknown)}; take {', '.join(p.name for p in proofs)}", file=sys.stderr
        )
        raise SystemExit(2)
    return [proof for proof in proofs if any(proof in found for found in picked.values())]


def interrupted(*_: object) -> None:
    """Turn SIGTERM into an exception, so that everything that was started is freed."""
    raise KeyboardInterrupt


def command(
    proofs: Sequence[Proof], output: Path, text: str | None, arguments: Sequence[str] | None = None
) -> int:
    """Run the proofs that a command line asks for; 0 only when every figure is ok.

    Args:
        proofs: All that there are, in the order of running.
        output: The file of the figures, unless ``--output`` names another.
        text: The description of the command, for ``--help``.
        arguments: Of the command line; None is those of the process.
    """
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--only", default="", help="proofs or figures, separated by commas")
    parser.add_argument("--case", default="", help="cases of a proof, separated by commas, if it has names")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink every count, for a smoke")
    parser.add_argument("--output", type=Path, default=output, help="file for the figures")
    parser.add_argument("--broker-version", default="", help="required start of the server's version")
    parser.add_argument(
        "--suffix", default="", help="ends each figure's name; other figures in the file stay"
    )
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    options = parser.parse_args(arguments)
    wanted = chosen(proofs, [name for name in options.only.split(",") if name])
    signal.signal(signal.SIGTERM, interrupted)
    quiet()
    root = Path(tempfile.mkdtemp(prefix="leveret-prove-"))
    try:
        return run(
            wanted,
            bench=Bench(
                folder=root / "run",
                scale=options.scale,
                broker_version=options.broker_version,
                suffix=options.suffix,
                cases=[name for name in options.case.split(",") if name],
            ),
            output=options.output,
            complete=not (options.only or options.case) and options.scale >= 1,
        )
    finally:
        if options.keep:
            print(f"logs: {root}", file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)
