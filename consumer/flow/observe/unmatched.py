"""Report events that no enabled subscription wants. Belongs to the Observer: ``observe.unmatched``."""

from __future__ import annotations

from typing import Any

from consumer.core.model import Event
from consumer.flow.observe.reporter import traced
from metrics.series import Series

WARN_EVERY_S = 60.0  #: between two warnings of one tenant and type
PAIRS_MAX = 1_000  #: tenants and types whose last warning is kept; so many warnings come in a minute at most


class UnmatchedReporter:
    """Counts them, and warns of each tenant and type at most once a minute."""

    def __init__(self, series: Series, log: Any) -> None:
        self._count = series.events.labels("unmatched")
        self._log = log
        self._warned: dict[tuple[str, str], float] = {}  #: when, in monotonic seconds; the oldest come first
        self._suppressed = 0  #: events without a warning since the last warning
        self._latest: tuple[Event, float] | None = None  #: the latest of those, and when

    def event(self, event: Event, now: float) -> None:
        """Count an unmatched event; it is not parked.

        Args:
            event: The event.
            now: Monotonic seconds.
        """
        self._count.inc()
        pair = event.tenant, event.type
        if not self._may_warn(pair, now):
            self._suppressed += 1
            self._latest = event, now
            return
        self._warn(event)

    def settle(self, now: float) -> None:
        """Warn of the latest event without a warning, once a minute has passed since it; *now* as above."""
        if self._latest is not None and now - self._latest[1] >= WARN_EVERY_S:
            self._suppressed -= 1
            self._warn(self._latest[0])

    def _warn(self, event: Event) -> None:
        self._log.warning(
            "event.unmatched",
            event_id=event.id,
            tenant=event.tenant,
            type=event.type,
            **traced(event),
            suppressed=self._suppressed,
        )
        self._suppressed, self._latest = 0, None

    def _may_warn(self, pair: tuple[str, str], now: float) -> bool:
        """Return whether a warning of *pair* is due, and note it; its minute is remembered to the end."""
        warned = self._warned
        if now - warned.get(pair, -WARN_EVERY_S) < WARN_EVERY_S:
            return False
        warned.pop(pair, None)
        if len(warned) >= PAIRS_MAX:
            oldest = next(iter(warned))
            if now - warned[oldest] < WARN_EVERY_S:
                return False
            del warned[oldest]
        warned[pair] = now
        return True
