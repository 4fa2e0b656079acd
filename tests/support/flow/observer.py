"""An observer whose log lines and metrics a test can read."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from consumer.core.model import (
    Attempt,
    Delivered,
    Drop,
    Outcome,
    OutcomeKind,
    Park,
    ParkReason,
    Retry,
)
from consumer.flow.observe.observer import Attempted, Observer
from metrics.series import Series
from tests.support.builders.endpoints import subscription
from tests.support.fakes import START, RecordingLog
from tests.support.worker import event

SECRET_BODY = b'{"card":"4111-1111"}'
VERDICTS = {
    "delivered": Delivered(),
    "retry": Retry(1.5),
    "park": Park(ParkReason.EXHAUSTED, "HTTP 503"),
    "drop": Drop("HTTP 404"),
}


class ObserverDesk:
    """An observer with its log lines and its metrics."""

    def __init__(self, tenants: int = 100) -> None:
        self.log = RecordingLog()
        self.series = Series(CollectorRegistry(), tenants)
        self.observe = Observer(self.series, self.log)

    def count(self, name: str, **labels: str) -> float | None:
        """Read a metric."""
        return self.series.registry.get_sample_value(f"leveret_{name}", labels)

    def attempted(
        self, verdict: Any, number: int = 1, kind: OutcomeKind = OutcomeKind.HTTP_5XX
    ) -> dict[str, Any]:
        """Observe one attempt; return the line."""
        status = {OutcomeKind.OK: 200, OutcomeKind.HTTP_5XX: 503}.get(kind)
        outcome = Outcome(kind=kind, status=status, duration_s=0.25, detail="it said no", body=SECRET_BODY)
        attempt = Attempt(number=number, at=START, kind=kind, status=status, duration_s=0.25)
        self.observe.attempted(Attempted(event(body=SECRET_BODY), subscription(), attempt, outcome, verdict))
        return self.log.events("delivery.attempted")[-1]
