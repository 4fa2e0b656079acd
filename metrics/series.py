"""Every metric series of a worker, on a registry that the caller passes in."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from math import nan

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, disable_created_metrics

from metrics.histogram import Histogram
from metrics.tally import Settler, Tally

disable_created_metrics()  # type: ignore[no-untyped-call]  # a further series per label set, for no use

MAX_TENANTS = 100  #: default number of tenants with series of their own
MAX_OTHERS = 10_000  #: most other tenants that are counted separately
MAX_SUBSCRIPTIONS = 20  #: default number of subscriptions with series of their own
MAX_ATTEMPT_LABEL = 10  #: attempts from this number on share the label ``10+``
OTHER = "other"

WAITS_S = (0.25, 0.5, 1, 2, 4, 8, 16, 30, 60, 300, 900, 3600, 14400, 43200, 86400)
ATTEMPT_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30)
CONFIRM_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
IN_HAND_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
DELIVERY_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
PARKED_S = (3600, 86400, 3 * 86400, 7 * 86400)

CODES = frozenset(int(status) for status in HTTPStatus if status >= 300)
"""Statuses that are label values; any other is counted by its class."""


class Series:
    """The series, grouped by subject. Label values come from closed sets; their tenants are bounded."""

    def __init__(self, registry: CollectorRegistry, tenants: int = MAX_TENANTS) -> None:
        """Register every series.

        Args:
            registry: The registry of this worker; nothing is global, so each test counts from zero.
            tenants: Number of tenants with series of their own; the others share ``other``.
        """
        self.registry = registry
        self._settler = Settler()
        registry.register(self._settler)
        self._max_tenants = tenants
        self._own_tenants: set[str] = set()
        self._other_tenants: set[str] = set()
        self._add_deliveries()
        self._add_books()
        self._add_parked()
        self._add_tenants()
        self._add_fairness()
        self._add_endpoints()
        self._add_subscriptions()
        self._add_broker()
        self._add_windows()
        self._add_daemon()

    def _add_deliveries(self) -> None:
        # outcome: matched | unmatched | bad | inbox | suspect | duplicate
        self.events = self._counter("events", "Events taken from a lane, by their result.", "outcome")
        # verdict: delivered | parked | cancelled | archived
        self.deliveries = self._counter("deliveries", "Deliveries that ended, by verdict.", "verdict")
        text = "From an event's arrival, or the end of a hold by hand, to the end of its successful attempt."
        self.delivery = self._histogram("delivery_seconds", text, DELIVERY_S).labels()
        text = "Age of the oldest event in flight, or that failed or was deferred, not by hand, in a minute."
        self.oldest_delivery = self._gauge("oldest_delivery_seconds", text)
        text = "Arrival of the oldest waiting delivery that this process stored (Unix time). 0: none known."
        self.oldest_waiting = self._gauge("oldest_waiting_timestamp_seconds", text)
        # kind: consumer.core.model.OutcomeKind
        self.attempts = self._counter("attempts", "HTTP requests, by kind of result.", "kind")
        text = "Delivery messages acked unsent: a copy of the same message has made the attempt."
        self.repeated_deliveries = self._counter("repeated_deliveries", text)
        # code: a known status; 3xx, 4xx or 5xx for another one; a kind if no status arrived
        self.failures = self._counter("failures", "Failed HTTP requests, by status or kind of error.", "code")
        # result: delivered | failed
        self.attempts_by_number = self._counter(
            "attempts_by_number", "HTTP requests by attempt number (1-based) and result.", "attempt", "result"
        )
        # verdict: delivered | retry | defer | park | drop
        self.attempt_duration = self._histogram(
            "attempt_duration_seconds", "Wall time of one webhook request.", ATTEMPT_S, "verdict"
        )
        self.retries = self._counter(
            "retries", "Retries planned, by number of the failed attempt.", "attempt"
        )
        # kind: consumer.core.model.OutcomeKind
        text = "Retries planned, by kind of the failed attempt's result."
        self.retries_by_kind = self._counter("retries_by_kind", text, "kind")
        text = "Waits planned before a retry."
        self.retry_wait = self._histogram("retry_wait_seconds", text, WAITS_S).labels()
        text = "From the end of a failed attempt to the start of the next one."
        self.attempt_gap = self._histogram("attempt_gap_seconds", text, WAITS_S).labels()

    def _add_books(self) -> None:
        text = "Targets that became owed: an event matched, or a parked entry was replayed."
        self.targets_owed = self._counter("targets_owed", text)
        # verdict: delivered | parked | cancelled
        text = "Targets that ended, by verdict; each once its message is settled."
        self.targets_ended = self._counter("targets_ended", text, "verdict")
        text = "Targets in delivery messages: stored minus taken. Only the sum over workers counts."
        self.targets_waiting = self._gauge("targets_waiting", text)
        text = "Targets in flight: matched or taken, and neither ended nor stored."
        self.targets_in_flight = self._gauge("targets_in_flight", text)
        # source: lane | waiting
        text = (
            "Targets in flight whose message came back, as the worker was killed or the message was given "
            "back. Those of a lane are owed again."
        )
        self.targets_interrupted = self._counter("targets_interrupted", text, "source")
        text = "Delivery messages confirmed minus acked. Only the sum over workers counts."
        self.waiting_messages = self._gauge("waiting_messages", text)

    def _add_parked(self) -> None:
        # reason: consumer.core.model.ParkReason
        self.parked = self._counter("parked", "Entries parked, by reason.", "reason")
        # code: as in failures; none without an attempt
        text = "Deliveries parked, by the result of their last attempt."
        self.parked_by_code = self._counter("parked_by_code", text, "code")
        # way: replayed | archived | purged
        text = "How long a delivery was in the parked queue, when it left."
        self.parked_age = self._histogram("parked_age_seconds", text, PARKED_S, "way")
        text = "Messages in the parked queue by the store's index. NaN: unknown, or the index is off."
        self.parked_indexed = self._gauge("parked_indexed_messages", text)
        self.parked_indexed.set(nan)
        text = "When parked was last seen empty (Unix time): no entry is older. 0: not since the start."
        self.parked_empty = self._gauge("parked_empty_timestamp_seconds", text)
        text = "Entries parked now, by the store's index, also those in the hands of a command. NaN: unknown."
        self.parked_entries = self._gauge("parked_entries", text)
        self.parked_entries.set(nan)
        text = "When the oldest entry was parked (Unix time), by the store's index. 0: none. NaN: unknown."
        self.oldest_parked = self._gauge("oldest_parked_timestamp_seconds", text)
        self.oldest_parked.set(nan)

    def _add_tenants(self) -> None:
        self.tenant_jobs = self._counter("tenant_jobs", "Jobs started, by tenant.", "tenant")
        text = "When a job was last started for the tenant, to the second (Unix time)."
        self.tenant_last_job = self._gauge("tenant_last_job_timestamp_seconds", text, "tenant")
        text = "Messages in hand that wait for their tenant's turn."
        self.tenant_waiting = self._gauge("tenant_waiting_messages", text, "tenant")
        text = "Rounds since the waiting tenant was last served, or began to wait."
        self.tenant_rounds = self._gauge("tenant_rounds_waited", text, "tenant")
        text = "Deliveries of the tenant in flight, as its share of the slots is counted."
        self.tenant_in_flight = self._gauge("tenant_in_flight_deliveries", text, "tenant")
        text = "1 while the tenant's events are rerouted around the lanes; other: how many such tenants."
        self.tenant_rerouted = self._gauge("tenant_rerouted", text, "tenant")
        text = "Priority by the rounds waited, 5 (just served) to 1 (waits longest)."
        self.tenant_priority = self._gauge("tenant_priority", text, "tenant")
        text = "The tenant's consecutive jobs; 0 if the last job was another tenant's."
        self.tenant_consecutive = self._gauge("tenant_consecutive_jobs", text, "tenant")
        self.tenant_parked = self._counter("tenant_parked", "Deliveries parked, by tenant.", "tenant")
        text = "Parked deliveries that were replayed, by tenant."
        self.tenant_replayed = self._counter("tenant_replayed", text, "tenant")
        text = (
            "Entries parked now, by tenant, as the store's index has them; other: the most of any one other."
        )
        self.tenant_parked_entries = self._gauge("tenant_parked_entries", text, "tenant")
        self._by_tenant = (
            *(self.tenant_jobs, self.tenant_last_job, self.tenant_waiting, self.tenant_rounds),
            *(self.tenant_priority, self.tenant_consecutive, self.tenant_parked, self.tenant_replayed),
            *(self.tenant_parked_entries, self.tenant_in_flight, self.tenant_rerouted),
        )
        # series: own | other
        text = "Tenants seen since the start, by whether they have series of their own."
        self.tenants = self._gauge("tenants", text, "series")

    def _add_fairness(self) -> None:
        text = "Tenants whose events are now rerouted around the lanes, as far as this worker knows."
        self.noisy_tenants = self._gauge("noisy_tenants", text)
        text = "Times that this worker rerouted a tenant around the lanes."
        self.tenant_spills = self._counter("tenant_spills", text)
        text = "Tenants with a lane of their own, by the settings."
        self.dedicated_tenants = self._gauge("dedicated_tenants", text)
        text = "Messages not started that were moved to a spill queue, or to the end of their own."
        self.moved = self._counter("moved_messages", text)
        # share: fresh | due | replay | spill | suspect
        text = "How long a message was in hand before it started, in steps of 50 ms."
        self.queue_wait = self._histogram("queue_wait_seconds", text, IN_HAND_S, "share")
        text = "Jain index of the last minute, over deliveries by weight of tenants that had work throughout."
        self.fairness_index = self._gauge("fairness_index", text)
        text = "Tenants that had work in hand throughout the last minute; the index covers them."
        self.fairness_tenants = self._gauge("fairness_tenants", text)
        text = "Deliveries that one tenant may have in flight while no other tenant waits."
        self.borrowable = self._gauge("borrowable_deliveries", text)

    def _add_endpoints(self) -> None:
        # reason: breaker | local | locked | paced | paused | proxy | saturated | slow | unknown
        text = "Targets deferred without an attempt."
        self.deferrals = self._counter("deferrals", text, "reason")
        # state: closed | open | probing
        self.breakers = self._gauge("breakers", "Endpoints by the state of their breaker.", "state")
        self.breaker_openings = self._counter("breaker_openings", "Times that a breaker opened.")
        text = "When the breaker that has not been closed for longest opened (Unix time). 0: all are closed."
        self.oldest_open = self._gauge("breaker_oldest_open_timestamp_seconds", text)
        self.in_flight = self._gauge("requests_in_flight", "HTTP requests in flight.")

    def _add_subscriptions(self) -> None:
        # result: delivered | failed
        text = "HTTP requests of the subscriptions in most trouble, by result."
        self.subscription_attempts = self._counter("subscription_attempts", text, "subscription", "result")
        text = "95th percentile of the last 20 requests; other: the highest of any other in trouble."
        self.subscription_latency = self._gauge("subscription_latency_seconds", text, "subscription")
        text = "Deliveries that wait, of those that this worker stored."
        self.subscription_waiting = self._gauge("subscription_waiting_deliveries", text, "subscription")
        text = "Entries parked now, by the store's index; other: the most of any one other."
        self.subscription_parked = self._gauge("subscription_parked_entries", text, "subscription")
        text = "Breaker: 0 closed, 1 probing, 2 open; other: how many others are not closed."
        self.subscription_breaker = self._gauge("subscription_breaker", text, "subscription")
        # cause: consumer.core.endpoint.trouble.CAUSES
        text = "Share of the last minute's work that failed or was held; 0: it has recovered."
        self.subscription_trouble = self._gauge("subscription_trouble", text, "subscription", "cause")
        self._by_subscription = (
            *(self.subscription_latency, self.subscription_waiting),
            *(self.subscription_parked, self.subscription_breaker),
        )
        text = "Subscriptions in trouble, up to 1,000, with and without series of their own."
        self.in_trouble = self._gauge("subscriptions_in_trouble", text)
        text = "Subscriptions that Leveret disabled itself: the endpoint was gone, or failed for days."
        self.disabled_itself = self._gauge("subscriptions_disabled", text)
        text = "When the next replaced secret stops signing (Unix time). 0: none is about to end."
        self.secret_expiry = self._gauge("secret_expiry_timestamp_seconds", text)

    def _add_broker(self) -> None:
        # queue: lane | due | spill | wait | replay | suspect | overflow | parked | expired | stray
        self.queue_messages = self._gauge(
            "queue_messages", "Messages in a queue, by its kind; of parked also those in hand.", "queue"
        )
        # queue: the name of a rung or of a due queue
        text = "Messages of this worker that a queue should have given back over 60 s ago, an estimate."
        self.overdue = self._gauge("queue_overdue_messages", text, "queue")
        text = "Time for which a queue has not given back a message of this worker, from 20 s on."
        self.late = self._gauge("queue_late_seconds", text, "queue")
        text = "Bytes of delivery messages that wait, estimated from their number and their mean size."
        self.waiting_bytes = self._gauge("waiting_bytes", text)
        text = "[limits] waiting_bytes: from here on fresh events stay in their lanes."
        self.waiting_limit = self._gauge("waiting_limit_bytes", text)
        text = "Publish to broker confirm."
        self.confirm = self._histogram("confirm_seconds", text, CONFIRM_S).labels()
        text = "1 while no new attempt starts because the broker is slow or blocked."
        self.pressed = self._gauge("pressed", text)
        text = "Queues that confirm no publish now; publishes to other queues go on."
        self.stuck_queues = self._gauge("stuck_queues", text)
        # error: unroutable | refused | unavailable
        text = "Publishes that were not confirmed."
        self.publish_failures = self._counter("publish_failures", text, "error")
        text = "Acks on a closed channel; the broker delivers these messages again."
        self.stale_settles = self._counter("stale_settles", text)
        # severity: error | warning | note
        text = "Differences between the broker and the plan, as reported by `leveret topology check`."
        self.topology_findings = self._gauge("topology_findings", text, "severity")
        # connection: consume | publish
        text = "Reconnections to the broker."
        self.reconnects = self._counter("reconnects", text, "connection")
        # connection: consume | publish
        text = "Failed connection attempts to the broker: refused, wrong password, no answer."
        self.connect_failures = self._counter("connect_failures", text, "connection")

    def _add_windows(self) -> None:
        self.window = self._gauge("window_messages", "Messages in hand and not started, by source.", "source")
        text = "Bytes of the messages in hand, by source."
        self.window_bytes = self._gauge("window_bytes", text, "source")
        self.held_bytes = self._gauge(
            "held_bytes", "Bytes of the messages in hand, as counted for the memory limit."
        )

    def _add_daemon(self) -> None:
        self.ready = self._gauge("ready", "1 while /readyz is green.")
        self.build = Info("leveret_build", "The version of Leveret and of Python.", registry=self.registry)
        # certificate: api | broker_client
        text = "When a certificate of ours ends (Unix time), as the process that shows it started with it."
        self.certificate_expiry = self._gauge("certificate_expiry_timestamp_seconds", text, "certificate")
        # enabled: true | false
        self.subscriptions = self._gauge("subscriptions", "Subscriptions in memory.", "enabled")
        text = (
            "Subscriptions whose secrets cannot be decrypted, or whose retry policy is gone: nothing is sent."
        )
        self.locked = self._gauge("subscriptions_locked", text)
        text = "Live workers, including this one; rates are divided by it."
        self.workers = self._gauge("workers", text)
        self.workers.set(1)
        text = "Operational events that were published, as messages or webhooks."
        self.ops_events = self._counter("ops_events", text)
        text = "1 while the store can be read and written; delivery continues without it."
        self.store_up = self._gauge("store_up", text)
        text = "1 while the store is the one that the broker's messages were made with, as far as is known."
        self.store_trusted = self._gauge("store_trusted", text)
        text = "Changes to the index of parked entries that were dropped while the store was unavailable."
        self.records_dropped = self._counter("records_dropped", text)
        # reason: full | refused | stopped
        text = "Rows of the history that were not recorded: no room in memory, refused, or left at the end."
        self.history_dropped = self._counter("history_dropped", text, "reason")
        text = "Events that were sent without a look-up of repeated ids: the history was not read in time."
        self.lookups_missed = self._counter("history_lookups_missed", text)
        # result: exported | full | refused | stopped
        text = "Recorded spans: exported, or dropped for want of room, by the collector, or at the end."
        self.spans = self._counter("spans", text, "result")
        # result: ok | failed
        self.reloads = self._counter("reloads", "Reloads of the subscriptions, by result.", "result")
        # task: consumer.flow.observe.label_values.TASKS
        text = "Ends of tasks, or of one step of a task, by an error that nobody expected; the log has each."
        self.task_failures = self._counter("task_failures", text, "task")
        text = "Log lines that were dropped because the log was not read or the disk was full."
        self.log_dropped = self.tally(self._counter("log_lines_dropped", text))
        text = "Longest delay of a due callback by the event loop in the last minute."
        self.loop_lag = self._gauge("loop_lag_seconds", text)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"leveret_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"leveret_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
        histogram = Histogram(f"leveret_{name}", text, bounds, labels)
        self.registry.register(histogram)
        return histogram

    def tally(self, child: Counter) -> Tally:
        """Return a cheap counter for *child*, one of our labelled series."""
        tally = Tally(child)
        self._settler.tallies.append(tally)
        return tally

    def before_scrape(self, step: Callable[[], None]) -> None:
        """Run *step* before each scrape."""
        self._settler.steps.append(step)

    def tenant_label(self, tenant: str) -> str:
        """Return the label of *tenant*.

        The label is ``other`` if the allowed number of tenants already have series of their own. It stays so
        until :meth:`replace_tenant`.
        """
        if tenant in self._own_tenants:
            return own_label(tenant)
        if len(self._own_tenants) < self._max_tenants:
            self._own_tenants.add(tenant)
            self.tenants.labels("own").set(len(self._own_tenants))
            return own_label(tenant)
        if len(self._other_tenants) < MAX_OTHERS:
            self._other_tenants.add(tenant)
            self.tenants.labels("other").set(len(self._other_tenants))
        return OTHER

    def replace_tenant(self, old: str, new: str, jobs: Tally) -> None:
        """Remove the series of one tenant and allow another to have series, which begin at 0.

        Args:
            old: A tenant with series of its own; from now on it shares ``other``.
            new: A tenant that shared ``other``.
            jobs: The job counter of *old*.
        """
        self._own_tenants.remove(old)
        self._own_tenants.add(new)
        self._other_tenants.discard(new)
        if len(self._other_tenants) < MAX_OTHERS:
            self._other_tenants.add(old)
        self._settler.tallies.remove(jobs)
        for series in self._by_tenant:
            series.remove(own_label(old))

    def end_subscription(self, label: str) -> None:
        """Remove the series of a subscription, except the one of its cause."""
        for series in self._by_subscription:
            series.remove(label)
        for result in ("delivered", "failed"):
            self.subscription_attempts.remove(label, result)


def own_label(tenant: str) -> str:
    """Return the label value of a tenant with series of its own: its name, unless the name is ``other``.

    Tenants named ``other``, ``=other`` and so on get a further ``=``, so that no two share a label.
    """
    return f"={tenant}" if tenant.endswith(OTHER) and tenant.lstrip("=") == OTHER else tenant


def tenant_of(label: str) -> str:
    """Return the tenant of a label value other than :data:`OTHER`."""
    return label[1:] if label.startswith("=") and label.lstrip("=") == OTHER else label


def attempt_label(number: int) -> str:
    """Return an attempt number as a label value of a closed set."""
    return str(number) if number < MAX_ATTEMPT_LABEL else f"{MAX_ATTEMPT_LABEL}+"


def code_label(kind: str, status: int | None) -> str:
    """Return the result of a failed attempt as a label value of a closed set.

    Args:
        kind: Value of ``consumer.core.model.OutcomeKind``.
        status: HTTP status, if one arrived.
    """
    if status is None or not kind.startswith("http_"):
        return kind
    return str(status) if status in CODES else kind.removeprefix("http_")
