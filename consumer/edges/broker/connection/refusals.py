"""Report that the broker takes no connection: each reason once a minute, with the time of the next try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from consumer.ports import BrokerReports

AGAIN_S: Final = 60.0  #: the same reason is reported again after this long


class Refusals:
    """What all connections of a worker were refused for; they meet the same fault at the same time."""

    def __init__(self, observe: BrokerReports, now: Callable[[], float]) -> None:
        """Begin.

        Args:
            observe: Counts every refused try, and logs those that are reported.
            now: Monotonic seconds.
        """
        self._observe = observe
        self._now = now
        self._reported: dict[str, float] = {}

    def refused(self, connection: str, detail: str, next_try_s: float) -> None:
        """Count a try; report its reason unless that was done within the last :data:`AGAIN_S`."""
        now = self._now()
        is_new = now - self._reported.get(detail, -AGAIN_S) >= AGAIN_S
        if is_new:
            self._reported = {k: at for k, at in self._reported.items() if now - at < AGAIN_S} | {detail: now}
        self._observe.broker_unreachable(connection, detail, next_try_s, is_new=is_new)

    def connected(self) -> None:
        """Forget what was reported: the next refusal is a new one."""
        self._reported.clear()
