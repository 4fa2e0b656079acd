"""Follow the history without missing a row that was committed late.

Data flow: :attr:`Follower.after` -> query -> rows -> :meth:`Follower.fresh` -> ``leveret tail``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from consumer.core.history.records import StoredStep

OVERLAP_S: Final = 2.0
"""Two workers take numbers from one sequence and may commit in another order: numbers that were read less
than this time ago are read again."""


class Follower:
    """Remembers which rows were seen."""

    def __init__(self, last: int) -> None:
        """Begin after the row with the number *last*; 0 begins with the first row."""
        self._settled = last  #: rows up to this number are not read again
        self._highest = last
        self._looks: deque[tuple[float, int]] = deque()  #: when, and the highest number that was seen then
        self._seen: set[int] = set()  #: numbers above *_settled*

    @property
    def after(self) -> int:
        """Number after which the next look begins to read."""
        return self._settled

    def fresh(self, steps: Sequence[StoredStep]) -> Sequence[StoredStep]:
        """Return the steps that were not seen before."""
        new = [step for step in steps if step.seq not in self._seen]
        self._seen.update(step.seq for step in new)
        return new

    def looked(self, now: float, newest: int) -> None:
        """End a look: rows that are old enough are not read again.

        Args:
            now: Monotonic seconds.
            newest: Highest number of any row before the look, whether it was wanted or not.
        """
        self._highest = max(self._highest, newest)
        if not self._looks or self._looks[-1][1] != self._highest:
            self._looks.append((now, self._highest))
        while self._looks and now - self._looks[0][0] >= OVERLAP_S:
            self._settled = max(self._settled, self._looks.popleft()[1])
        self._seen = {seq for seq in self._seen if seq > self._settled}
