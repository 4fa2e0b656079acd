"""Run the suite as five processes side by side: while one waits for a broker or a daemon, the others go on.

Most tests wait for processes that they start: one part alone leaves two processors idle for three quarters of
its time.

Data flow: five pytest processes -> their progress, line by line -> the summary of each -> one exit code.
``python -m tests.support.parts ARGUMENTS`` is one plain run of the named tests. ``--cov`` as the first
argument measures the coverage, which doubles the cost of the pure tests, and ends with its report.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from tests.support.data import ROOT
from tests.support.processes.children import spawn

EDGES = (
    *("broker", "doctor", "http", "inquire", "operate", "private_broker", "process", "serve", "sqlite_file"),
    "tracing",
)
NAMED = (
    (*(f"tests/system/{name}" for name in ("api", "cli", "hostile", "store", "web")), "tests/edges/store"),
    ("tests/system/broker", "tests/system/delivery"),
    ("tests/bench",),
    ("tests/cli", *(f"tests/edges/{name}" for name in EDGES)),
)
PYTEST = (sys.executable, "-m", "pytest")
COVERAGE = (sys.executable, "-m", "coverage")
LOOK_S = 0.1  #: pause between two reads of the output of the parts

Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that run one after the other."""

    name: str
    arguments: tuple[str, ...]


PARTS = (
    *(
        Part(name, ("--no-skips", *paths))
        for name, paths in zip(("first", "second", "third", "fourth"), NAMED, strict=True)
    ),
    Part("fifth", ("--no-skips", "tests", *(f"--ignore={path}" for paths in NAMED for path in paths))),
)
"""Each test is in one part, and the last part is all that the others leave out.

They end at about the same time; the second one waits the most, so it has the least work.
"""


class Running:
    """One part at work."""

    def __init__(self, part: Part, root: Path, folder: Path, *, covered: bool) -> None:
        self.name = part.name
        self.covered = folder / f"{part.name}.coverage"
        self._log = folder / f"{part.name}.log"
        self._began = time.monotonic()
        self._read_bytes = 0
        self._rest = b""
        self._words: list[str] = []
        cache = f"cache_dir={root / '.pytest_cache' / part.name}"  # two writers would lose each other's
        measured = ["--cov", "--cov-report="] if covered else []
        argv = [*PYTEST, f"--rootdir={root}", *measured, "-o", cache, *part.arguments]
        # hundreds of starts compile the product once, not each time
        compiles = {"PYTHONDONTWRITEBYTECODE": ""}
        env = os.environ | compiles | {"COVERAGE_FILE": str(self.covered)}
        self.process = spawn(argv, log=self._log, env=env, cwd=root)

    def progress(self) -> Iterator[str]:
        """Yield the new lines; lines from the first heading on belong to the summary, and are held back."""
        with self._log.open("rb") as log:
            log.seek(self._read_bytes)
            new = log.read()
        self._read_bytes += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in (line.decode("utf-8", "replace") for line in lines):
            if self._words or (line.startswith("==") and "test session starts" not in line):
                self._words.append(line)
            elif line:
                yield f"{self.name:<7}| {line}"

    def last_words(self) -> str:
        """Return the summary, with all failures."""
        took_s = time.monotonic() - self._began
        rest = self._rest.decode("utf-8", "replace")
        return "\n".join([f"--- {self.name}, {took_s:.0f} s", *self._words, rest]).rstrip()


def run(parts: Sequence[Part], root: Path = ROOT, *, covered: bool = False) -> int:
    """Run *parts* at the same time in *root*; return 0 when all of them passed, or else 1.

    Args:
        parts: What to run.
        root: Where.
        covered: Measure the coverage too.
    """
    with tempfile.TemporaryDirectory(prefix="leveret-parts-") as folder:
        all_running = [Running(part, root, Path(folder), covered=covered) for part in parts]
        restored = _pass_on_signals(all_running)
        try:
            words = dict(_follow(all_running))
        finally:
            for number, handler in restored.items():
                signal.signal(number, handler)
        if covered:
            _report_coverage(root, [one.covered for one in all_running if one.covered.exists()])
    for one in all_running:
        print(f"\n{words[one.name]}")
    codes = {one.name: one.process.returncode for one in all_running}
    failed = [f"{name} ({code})" for name, code in codes.items() if code != 0]
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall passed", flush=True)
    return 1 if failed else 0


def _follow(all_running: Sequence[Running]) -> Iterator[tuple[str, str]]:
    """Print the progress of all; yield name and summary of each that has ended."""
    left = list(all_running)
    while left:
        ended = [one for one in left if one.process.poll() is not None]
        for one in left:
            for line in one.progress():
                print(line, flush=True)
        for one in ended:
            left.remove(one)
            yield one.name, one.last_words()
        time.sleep(LOOK_S)


def _pass_on_signals(all_running: Sequence[Running]) -> dict[signal.Signals, Handler]:
    """Pass SIGTERM on, and let the parts end by themselves. A terminal sends them Ctrl-C itself."""

    def end(_number: int, _frame: FrameType | None) -> None:
        for one in all_running:
            one.process.terminate()

    def wait(_number: int, _frame: FrameType | None) -> None:
        return

    return {
        signal.SIGTERM: signal.signal(signal.SIGTERM, end),
        signal.SIGINT: signal.signal(signal.SIGINT, wait),
    }


def _report_coverage(root: Path, files: Sequence[Path]) -> None:
    print(flush=True)
    env = os.environ | {"COVERAGE_FILE": str(root / ".coverage")}
    if files:
        merge = [*COVERAGE, "combine", "--quiet", *map(str, files)]
        subprocess.run(merge, cwd=root, env=env, check=True)
        subprocess.run([*COVERAGE, "report", "--skip-covered"], cwd=root, env=env, check=True)


def main(arguments: Sequence[str]) -> int:
    """Run all parts, or only the tests that *arguments* name."""
    covered = arguments[:1] == ["--cov"]
    named = arguments[covered:]
    if not named:
        return run(PARTS, covered=covered)
    measured = ["--cov", "--cov-report=term:skip-covered"] if covered else []
    return subprocess.run([*PYTEST, "--no-skips", *measured, *named], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
