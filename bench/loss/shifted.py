"""``leveret run`` with a wall clock that the proof sets: the clock port, shifted by the seconds in a file.

Run ``python -m bench.loss.shifted FILE``. No product code reads such a file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from consumer.daemon import life as app
from consumer.daemon.build import Run
from consumer.edges.process.system import SystemClock
from consumer.settings import load_settings


class ShiftedClock(SystemClock):
    """The real time, and what the file adds to it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> float:
        """Unix seconds, shifted."""
        return time.time() + float(self._file.read_text("ascii"))


def main() -> int:
    """Run the daemon; return its exit code."""
    return app.run(load_settings(), Run(clock=ShiftedClock(Path(sys.argv[1]))))


if __name__ == "__main__":
    sys.exit(main())
