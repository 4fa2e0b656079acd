"""Run the whole suite twice beside eight busy processes, and count the tests that fail.

The tests run at the same priority as the load: a test that waits on a condition is late then, and passes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from xml.etree import ElementTree

from bench.house.structure import ROOT
from bench.prove import Bench, Goal, Measured, Proof
from tests.support.processes.children import spawn, stop

BUSY = 8  #: processes beside the suite
RUNS = 2
RUN_S = 3600.0  #: no run takes longer
ASKED = 1_000  #: tests in one run, at least

GOALS = (Goal(name="failures_under_load", text="0", unit="tests", n=RUNS * ASKED),)


@asynccontextmanager
async def load(folder: Path) -> AsyncIterator[None]:
    """Keep every processor busy meanwhile."""
    argv = ["stress-ng", "--cpu", str(BUSY), "--timeout", str(int(RUNS * RUN_S))]
    process = spawn(argv, log=folder / "stress-ng.log")
    try:
        yield
    finally:
        await stop(process)


def outcome(report: Path) -> tuple[int, list[str]]:
    """Return how many tests a JUnit report holds, and the names of those that failed or broke."""
    cases = ElementTree.parse(report).getroot().iter("testcase")  # noqa: S314 (pytest wrote it just now)
    wrong = {_name(case): bool(case.findall("failure") + case.findall("error")) for case in cases}
    return len(wrong), [name for name, failed in wrong.items() if failed]


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


async def run_once(bench: Bench, number: int) -> tuple[int, list[str]]:
    """Run the suite once; return the result of :func:`outcome`."""
    report = bench.folder / f"suite-{number}.xml"
    argv = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *bench_paths(bench)]
    process = spawn(argv, log=bench.folder / f"suite-{number}.log", cwd=ROOT)
    try:
        await asyncio.wait_for(asyncio.to_thread(process.wait), RUN_S)
    finally:
        await stop(process)
    return outcome(report)


def bench_paths(bench: Bench) -> Sequence[str]:
    """Return pytest's arguments: everything, or little for a smoke."""
    return () if bench.scale >= 1 else ("tests/core/text",)


async def prove(bench: Bench) -> Sequence[Measured]:
    """Run it twice."""
    failed: list[str] = []
    count = 0
    async with load(bench.folder):
        for number in range(RUNS):
            ran, wrong = await run_once(bench, number)
            count, failed = count + ran, failed + wrong
            bench.note(f"suite_{number + 1}", {"tests": ran, "failed": wrong})
    return [Measured(name="failures_under_load", value=len(failed), n=count)]


PROOF = Proof("suite", GOALS, prove)
