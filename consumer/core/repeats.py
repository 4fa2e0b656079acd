"""Choose which of many equal faults are reported: the first one, and then one a minute with their number."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf
from typing import Final

AGAIN_S: Final = 60.0  #: time after which an equal fault is reported again
FAULTS_MAX: Final = 1_000  #: different faults that are remembered; beyond, the one reported longest ago goes


class Repeats:
    """The faults of one kind that were reported, each with the number of equal ones since."""

    def __init__(self) -> None:
        self._reported: dict[Hashable, tuple[float, int]] = {}  #: when, and how many since; oldest first

    def due(self, fault: Hashable, now: float) -> int | None:
        """Take a fault; return whether to report it.

        Args:
            fault: Equal for faults that need one report.
            now: Monotonic seconds.

        Returns:
            How many equal faults were not reported since the last report, or None: do not report this one.
        """
        at, since = self._reported.get(fault, (-inf, 0))
        if now - at < AGAIN_S:
            self._reported[fault] = (at, since + 1)
            return None
        self._reported.pop(fault, None)
        if len(self._reported) >= FAULTS_MAX:
            del self._reported[next(iter(self._reported))]
        self._reported[fault] = (now, 0)
        return since

    def end(self) -> int:
        """Forget every fault; return how many were not reported since the last reports."""
        unreported = sum(since for _, since in self._reported.values())
        self._reported.clear()
        return unreported
