"""Run the whole suite twice beside eight busy processes, and count the tests that fail.

The load runs in a session of its own, as from a second terminal: Linux then shares the processors
evenly between the load and the suite. A test that waits on a condition is late, and passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from xml.etree import ElementTree

from bench.house.structure import ROOT
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.parts import PARTS, PYTEST, Part
from tests.support.processes.children import spawn, stop

BUSY = 8  #: processes beside the suite
RUNS = 2
RUN_S = 3600.0  #: no run takes longer
ASKED = 1_000  #: tests in one run, at least
REASON_CHARS = 4_000  #: of a failure's report that are kept

GOALS = (Goal(name="failures_under_load", text="0", unit="tests", n=RUNS * ASKED),)


@asynccontextmanager
async def load(folder: Path) -> AsyncIterator[None]:
    """Keep every processor busy meanwhile."""
    argv = ["setsid", "stress-ng", "--cpu", str(BUSY), "--timeout", str(int(RUNS * RUN_S))]
    process = spawn(argv, log=folder / "stress-ng.log")
    try:
        yield
    finally:
        await stop(process)


def outcome(report: Path) -> tuple[int, dict[str, str]]:
    """Return how many tests a JUnit report holds, and why each that failed or broke did so, by its name."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))  # noqa: S314 (pytest wrote it just now)
    wrong = {_name(case): [*case.findall("failure"), *case.findall("error")] for case in cases}
    return len(wrong), {name: _reason(faults[0]) for name, faults in wrong.items() if faults}


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _reason(fault: ElementTree.Element) -> str:
    """Return the end of a failure's report, which names the assertion and its place."""
    return f"{fault.get('message')}\n{fault.text}"[-REASON_CHARS:]


async def run_once(bench: Bench, number: int) -> tuple[int, dict[str, str]]:
    """Run the suite once, in the parts of ``make test``; return the sums of :func:`outcome`."""
    results = await asyncio.gather(*(_run_part(bench, number, part) for part in bench_parts(bench)))
    return sum(count for count, _ in results), {k: v for _, wrong in results for k, v in wrong.items()}


async def _run_part(bench: Bench, number: int, part: Part) -> tuple[int, dict[str, str]]:
    name = f"suite-{number}-{part.name}"
    report = bench.folder / f"{name}.xml"
    cache = f"cache_dir={bench.folder / part.name}"  # two writers would lose each other's
    argv = [*PYTEST, "-q", f"--junitxml={report}", "-o", cache, *part.arguments]
    process = spawn(argv, log=bench.folder / f"{name}.log", cwd=ROOT)
    try:
        await asyncio.wait_for(asyncio.to_thread(process.wait), RUN_S)
    finally:
        await stop(process)
    return outcome(report)


def bench_parts(bench: Bench) -> Sequence[Part]:
    """Return the parts of the suite: everything, or little for a smoke."""
    return PARTS if bench.scale >= 1 else (Part("smoke", ("tests/core/text",)),)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run it twice."""
    count = failed = 0
    async with load(bench.folder):
        for number in range(RUNS):
            ran, wrong = await run_once(bench, number)
            count, failed = count + ran, failed + len(wrong)
            bench.note(f"suite_{number + 1}", {"tests": ran, "failed": wrong})
    return [Measured(name="failures_under_load", value=failed, n=count)]


PROOF = Proof("suite", GOALS, prove)
