"""Every metric series of a worker, on a registry that is handed in."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # one series more per label set, and nobody asks for it

MAX_TENANTS = 100  #: tenants with a series of their own; the rest share ``other``
MAX_ATTEMPT_LABEL = 10  #: attempts from here on share the label ``10+``
OTHER = "other"

WAITS_S = (0.25, 0.5, 1, 2, 4, 8, 16, 30, 60, 300, 900, 3600, 14400, 43200, 86400)
ATTEMPT_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30)
CONFIRM_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)


class Series:
    """The series, by what they count. Label values come from closed sets; tenants are bounded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"leveret_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"leveret_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"leveret_{name}", text, labels, buckets=buckets, registry=registry)

        # outcome: matched | unrouted | bad | inbox | suspect
        self.events = counter("events", "Events taken from a lane, by what became of them.", "outcome")
        # verdict: delivered | parked | cancelled
        self.deliveries = counter("deliveries", "Deliveries that ended, by how.", "verdict")
        # kind: consumer.core.model.Kind
        self.attempts = counter("attempts", "HTTP requests, by what came of them.", "kind")
        # result: delivered | failed
        self.attempts_by_number = counter(
            "attempts_by_number", "HTTP requests by attempt number (1-based) and result.", "attempt", "result"
        )
        self.attempt_duration = histogram(
            "attempt_duration_seconds", "Wall time of one webhook request.", ATTEMPT_S, "verdict"
        )
        self.retries = counter("retries", "Retries planned, by the number of the failed attempt.", "attempt")
        self.retry_wait = histogram("retry_wait_seconds", "Waits planned before a retry.", WAITS_S)
        # reason: breaker | paced | saturated | slow
        self.deferrals = counter("deferrals", "Targets put off without spending an attempt.", "reason")
        # reason: consumer.core.model.ParkReason
        self.parked = counter("parked", "Entries parked, by reason.", "reason")
        self.queue_messages = gauge("queue_messages", "Messages ready in a queue, by its kind.", "queue")
        # state: closed | open | probing
        self.breakers = gauge("breakers", "Endpoints by the state of their breaker.", "state")
        self.breaker_openings = counter("breaker_openings", "Times that a breaker opened.")
        self.tenant_jobs = counter(
            "tenant_jobs", "Jobs started, by tenant (the first 100, then other).", "tenant"
        )
        self.in_flight = gauge("requests_in_flight", "HTTP requests in flight.")
        self.window = gauge("window_messages", "Messages in hand and not started, by source.", "source")
        self.confirm = histogram("confirm_seconds", "Publish to broker confirm.", CONFIRM_S)
        self.pressed = gauge(
            "pressed", "1 while no new attempt starts because the broker is slow or blocked."
        )
        # error: unroutable | refused | unavailable
        self.publish_failures = counter("publish_failures", "Publishes that were not confirmed.", "error")
        self.stale_settles = counter(
            "stale_settles", "Acks that met a dead channel; the message comes again."
        )
        self.reconnects = counter(
            "reconnects", "Connections to the broker that were made again.", "connection"
        )
        self.subscriptions = gauge("subscriptions", "Subscriptions in memory.", "enabled")
        self.reloads = counter("reloads", "Reloads of the subscriptions, by result.", "result")
        self.loop_lag = gauge("loop_lag_seconds", "How late the event loop woke at the last look.")
        self._tenants: set[str] = set()

    def tenant_label(self, tenant: str) -> str:
        """Return *tenant*, or ``other`` once 100 tenants have a series of their own."""
        if tenant in self._tenants:
            return tenant
        if len(self._tenants) < MAX_TENANTS:
            self._tenants.add(tenant)
            return tenant
        return OTHER


def attempt_label(number: int) -> str:
    """Return an attempt number as a label value of a closed set."""
    return str(number) if number < MAX_ATTEMPT_LABEL else f"{MAX_ATTEMPT_LABEL}+"
