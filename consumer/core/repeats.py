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
FAULTS_MAX: Final = 1_000  #: different faults that are remembered, and so many are reported a minute at most


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
        self._others = 0  #: faults that found no room, since the last report
        self._latest_other: tuple[F, float] | None = None  #: the latest of those, and when it came

    def due(self, fault: F, now: float) -> int | None:
        """Take a fault; return whether to report it.

        Args:
            fault: Equal for faults that need one report.
            now: Monotonic seconds.

        Returns:
            How many equal faults were not reported since the last report, or None: do not report this one.
            The number contains different faults that found no room before.
        """
        known = self._faults.get(fault, _Remembered())
        if not known.is_due(now):
            return None
        self._faults.pop(fault, None)
        if not self._has_room(now):
            self._others += 1
            self._latest_other = fault, now
            return None
        self._faults[fault] = _Remembered(now, now)
        return known.unreported + self._take_others()

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
        found = [(fault, known.unreported) for fault, known in over.items() if known.unreported]
        if self._latest_other is not None and now - self._latest_other[1] >= AGAIN_S:
            fault, _ = self._latest_other
            found.append((fault, self._take_others()))
        return found

    def end(self) -> int:
        """Forget every fault; return how many were not reported since the last reports."""
        return sum(unreported for _, unreported in self.settle(inf))

    def _has_room(self, now: float) -> bool:
        """Return whether one more fault can be remembered; one that was reported a minute ago makes room."""
        if len(self._faults) < FAULTS_MAX:
            return True
        oldest = next(iter(self._faults))
        if now - self._faults[oldest].reported_at < AGAIN_S:
            return False
        gone = self._faults.pop(oldest)
        if gone.unreported:
            self._others += gone.unreported
            self._latest_other = self._latest_other or (oldest, gone.latest_at)
        return True

    def _take_others(self) -> int:
        others, self._others, self._latest_other = self._others, 0, None
        return others
