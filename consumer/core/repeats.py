"""Choose which equal faults are reported: the first one, and one a minute with the number of others.

Data flow: a fault and the time -> :class:`Repeats` -> whether to report it, and how many it stands for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Generic, TypeVar

F = TypeVar("F", bound=Hashable)

AGAIN_S: Final = 60.0  #: time after which an equal fault is reported again
FAULTS_MAX: Final = 1_000  #: different faults that are remembered; beyond, the one reported longest ago goes


@dataclass(slots=True)
class _Remembered:
    """One fault; times are monotonic seconds."""

    reported_at: float = -inf
    latest_at: float = -inf
    unreported: int = 0  #: equal ones since the last report

    def is_due(self, now: float) -> bool:
        """Take one more; return whether to report it."""
        self.latest_at = now
        if now - self.reported_at >= AGAIN_S:
            return True
        self.unreported += 1
        return False


class Repeats(Generic[F]):
    """The faults that were reported, each with the number of equal ones since."""

    def __init__(self) -> None:
        self._faults: dict[F, _Remembered] = {}  #: the one reported longest ago comes first

    def due(self, fault: F, now: float) -> int | None:
        """Take a fault; return whether to report it.

        Args:
            fault: Equal for faults that need one report.
            now: Monotonic seconds.

        Returns:
            How many equal faults were not reported since the last report, or None: do not report this one.
        """
        known = self._faults.get(fault, _Remembered())
        if not known.is_due(now):
            return None
        self._faults.pop(fault, None)
        if len(self._faults) >= FAULTS_MAX:
            del self._faults[next(iter(self._faults))]
        self._faults[fault] = _Remembered(now, now)
        return known.unreported

    def settle(self, now: float) -> Sequence[tuple[F, int]]:
        """Forget the faults that did not come for a minute.

        Args:
            now: Monotonic seconds; infinite to forget every fault.

        Returns:
            Each of them that came after its last report, and how often it did.
        """
        over = {fault: known for fault, known in self._faults.items() if now - known.latest_at >= AGAIN_S}
        for fault in over:
            del self._faults[fault]
        return [(fault, known.unreported) for fault, known in over.items() if known.unreported]

    def end(self) -> int:
        """Forget every fault; return how many were not reported since the last reports."""
        return sum(unreported for _, unreported in self.settle(inf))
