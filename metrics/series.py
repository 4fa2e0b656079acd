"""Every metric series of a worker, on a registry that is handed in."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # one series more per label set, and nobody asks for it

MAX_TENANTS = 100  #: tenants with a series of their own; the rest share ``other``
MAX_ATTEMPT_LABEL = 10  #: attempts from here on share the label ``10+``
OTHER = "other"

WAITS_S = (0.25, 0.5, 1, 2, 4, 8, 16, 30, 60, 300, 900, 3600, 14400, 43200, 86400)
ATTEMPT_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30)
CONFIRM_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)


class Tally:
    """A counter on the path of every request: adds in memory, and to its series when somebody looks."""

    __slots__ = ("_child", "_pending")

    def __init__(self, child: Counter) -> None:
        self._child = child
        self._pending = 0

    def inc(self) -> None:
        """Count one."""
        self._pending += 1

    def settle(self) -> None:
        """Bring the series up to date."""
        if self._pending:
            pending, self._pending = self._pending, 0
            self._child.inc(pending)


class _Settler(Collector):
    """Registered before every series, so that a look at any of them finds it up to date."""

    def __init__(self) -> None:
        self.tallies: list[Tally] = []

    def collect(self) -> Iterable[Metric]:
        """Settle all tallies; there is no series of its own."""
        for tally in self.tallies:
            tally.settle()
        return ()


class Series:
    """The series, by what they count. Label values come from closed sets; tenants are bounded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._settler = _Settler()
        registry.register(self._settler)
        self._tenants: set[str] = set()
        self._add_deliveries()
        self._add_endpoints()
        self._add_broker()
        self._add_daemon()

    def _add_deliveries(self) -> None:
        # outcome: matched | unrouted | bad | inbox | suspect
        self.events = self._counter("events", "Events taken from a lane, by what became of them.", "outcome")
        # verdict: delivered | parked | cancelled | archived
        self.deliveries = self._counter("deliveries", "Deliveries that ended, by how.", "verdict")
        # kind: consumer.core.model.Kind
        self.attempts = self._counter("attempts", "HTTP requests, by what came of them.", "kind")
        # result: delivered | failed
        self.attempts_by_number = self._counter(
            "attempts_by_number", "HTTP requests by attempt number (1-based) and result.", "attempt", "result"
        )
        self.attempt_duration = self._histogram(
            "attempt_duration_seconds", "Wall time of one webhook request.", ATTEMPT_S, "verdict"
        )
        self.retries = self._counter(
            "retries", "Retries planned, by number of the failed attempt.", "attempt"
        )
        self.retry_wait = self._histogram("retry_wait_seconds", "Waits planned before a retry.", WAITS_S)
        # reason: consumer.core.model.ParkReason
        self.parked = self._counter("parked", "Entries parked, by reason.", "reason")
        text = "Jobs started, by tenant (the first 100, then other)."
        self.tenant_jobs = self._counter("tenant_jobs", text, "tenant")

    def _add_endpoints(self) -> None:
        # reason: breaker | paced | proxy | saturated | slow
        text = "Targets put off without spending an attempt."
        self.deferrals = self._counter("deferrals", text, "reason")
        # state: closed | open | probing
        self.breakers = self._gauge("breakers", "Endpoints by the state of their breaker.", "state")
        self.breaker_openings = self._counter("breaker_openings", "Times that a breaker opened.")
        self.in_flight = self._gauge("requests_in_flight", "HTTP requests in flight.")

    def _add_broker(self) -> None:
        self.queue_messages = self._gauge(
            "queue_messages", "Messages ready in a queue, by its kind.", "queue"
        )
        self.window = self._gauge("window_messages", "Messages in hand and not started, by source.", "source")
        self.confirm = self._histogram("confirm_seconds", "Publish to broker confirm.", CONFIRM_S)
        text = "1 while no new attempt starts because the broker is slow or blocked."
        self.pressed = self._gauge("pressed", text)
        # error: unroutable | refused | unavailable
        text = "Publishes that were not confirmed."
        self.publish_failures = self._counter("publish_failures", text, "error")
        text = "Acks that met a dead channel; the message comes again."
        self.stale_settles = self._counter("stale_settles", text)
        text = "Connections to the broker that were made again."
        self.reconnects = self._counter("reconnects", text, "connection")

    def _add_daemon(self) -> None:
        self.subscriptions = self._gauge("subscriptions", "Subscriptions in memory.", "enabled")
        self.reloads = self._counter("reloads", "Reloads of the subscriptions, by result.", "result")
        self.loop_lag = self._gauge("loop_lag_seconds", "How late the event loop woke at the last look.")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"leveret_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"leveret_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"leveret_{name}", text, labels, buckets=buckets, registry=self.registry)

    def tally(self, child: Counter) -> Tally:
        """Return a cheap way to count on *child*, one of our labelled series."""
        tally = Tally(child)
        self._settler.tallies.append(tally)
        return tally

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
