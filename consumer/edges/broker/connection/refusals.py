"""Report refused connections to the broker: each reason once a minute, with the time of the next try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from consumer.flow.observe.observer import Observer

AGAIN_S: Final = 60.0  #: time after which the same reason is reported again


class Refusals:
    """The refusals of all connections of a worker, which meet the same fault at the same time."""

    def __init__(self, observe: Observer, now: Callable[[], float]) -> None:
        """Begin without refusals.

        Args:
            observe: Counts every refused try, and logs the reported ones.
            now: Returns monotonic seconds.
        """
        self._observe = observe
        self._now = now
        self._reported: dict[str, float] = {}

    def refused(self, connection: str, detail: str, next_try_s: float) -> None:
        """Count a try; report its reason unless that happened within the last :data:`AGAIN_S`."""
        now = self._now()
        is_new = now - self._reported.get(detail, -AGAIN_S) >= AGAIN_S
        if is_new:
            self._reported = {k: at for k, at in self._reported.items() if now - at < AGAIN_S} | {detail: now}
        self._observe.broker_unreachable(connection, detail, next_try_s, is_new=is_new)

    def connected(self) -> None:
        """Forget all reports, so that the next refusal counts as new."""
        self._reported.clear()
