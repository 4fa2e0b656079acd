"""Report refused connections to the broker: each reason once a minute, with the time of the next try."""

from __future__ import annotations

from collections.abc import Callable

from consumer.core.repeats import Repeats
from consumer.ports import BrokerReports


class Refusals:
    """The refusals of all connections of a worker, which meet the same fault at the same time."""

    def __init__(self, observe: BrokerReports, now: Callable[[], float]) -> None:
        """Begin without refusals.

        Args:
            observe: Counts every refused try, and logs the reported ones.
            now: Returns monotonic seconds.
        """
        self._observe = observe
        self._now = now
        self._repeats: Repeats[str] = Repeats()

    def refused(self, connection: str, detail: str, next_try_s: float) -> None:
        """Count a try; its reason is logged at most once a minute, with the number of tries since."""
        suppressed = self._repeats.due(detail, self._now())
        self._observe.broker_unreachable(connection, detail, next_try_s, suppressed=suppressed)

    def connected(self) -> int:
        """Forget all reports, so that the next refusal counts as new; return how many refusals had none."""
        return self._repeats.end()
