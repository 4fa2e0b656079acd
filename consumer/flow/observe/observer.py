"""Say what happened: one log line and the metric updates per finished step. Nobody else logs or counts.

Event names are static ``noun.verbed``. Ids may be logged; bodies and secrets never are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from consumer.core.fairness.queue import Standing
from consumer.core.message.operator_events import Note, OperatorEventType
from consumer.core.message.parked import delivery_id
from consumer.core.model import (
    Attempt,
    Defer,
    Delivered,
    Drop,
    Event,
    Outcome,
    OutcomeKind,
    Park,
    ParkReason,
    Retry,
    Verdict,
)
from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.fairness import FairnessReports
from consumer.flow.observe.label_values import begin_at_zero
from consumer.flow.observe.store import StoreReports
from consumer.flow.observe.strangers import UnknownReports
from consumer.flow.observe.tenants import Tenants
from metrics.series import Series, Tally, attempt_label, code_label
from topology.check import Finding, Severity


class Attempted(NamedTuple):
    """One finished attempt with all that is known of it."""

    event: Event
    subscription: Subscription
    attempt: Attempt
    outcome: Outcome
    verdict: Verdict
    previous: Attempt | None = None  #: of the same delivery


class Observer(StoreReports):
    """Turns finished steps into log lines and metrics.

    The children of labelled series are looked up once: this is on the path of every request.
    """

    def __init__(self, series: Series, log: Any = None) -> None:
        self.series = series
        self.log: Any = structlog.get_logger() if log is None else log
        begin_at_zero(series)
        series.pressed.set(1)  # a publisher begins without a connection, and tells only of changes
        series.store_up.set(1)
        self.findings: Sequence[Finding] = ()  #: of the last comparison of the broker with the plan
        self.store_faults: dict[str, str] = {}  #: what is wrong with the store now, by step: read | write
        series.store_trusted.set(1)
        self.strangers = UnknownReports(series, self.log)
        self._kind = {kind: series.tally(series.attempts.labels(kind.value)) for kind in OutcomeKind}
        self._delivered = series.tally(series.deliveries.labels("delivered"))
        self._duration = {
            name: series.attempt_duration.labels(name)
            for name in ("delivered", "retry", "defer", "park", "drop")
        }
        self._matched = series.tally(series.events.labels("matched"))
        self._deferrals: dict[str, Tally] = {}
        self._delivery = series.delivery
        self._tenants = Tenants(series)
        self._tenant_jobs = self._tenants.jobs
        self.on_note: Callable[[Note], None] = lambda _note: None  #: told what operators are told
        self.fairness = FairnessReports(
            series,
            self.log,
            lambda note: self.on_note(note),  # noqa: PLW0108 - it is set later
        )
        self.on_sizes: Callable[[Mapping[str, int]], None] = lambda _totals: None  #: told of our queues
        self._first_ok = series.tally(series.attempts_by_number.labels("1", "delivered"))

    # events

    def event_matched(self, event: Event) -> None:
        """Count an event that has at least one target."""
        self._matched.inc()
        self.tenant_job(event.tenant)

    def tenant_job(self, tenant: str) -> None:
        """Count one started job of a tenant."""
        tally = self._tenant_jobs.get(tenant)
        if tally is None:
            self._tenants.job(tenant)
        else:
            tally.inc()

    def event_unrouted(self, event: Event) -> None:
        """No enabled subscription wants it: counted, not parked."""
        self.series.events.labels("unrouted").inc()
        self.log.debug("event.unrouted", event_id=event.id, tenant=event.tenant, type=event.type)

    def event_readdressed(self, event_id: str, queue: str) -> None:
        """An event went through the inbox hop and has an id now."""
        self.series.events.labels("inbox").inc()
        self.log.debug("event.readdressed", event_id=event_id, queue=queue)

    def message_suspected(self, queue: str, delivery_count: int) -> None:
        """A message came back so often that it is moved unread."""
        self.series.events.labels("suspect").inc()
        self.log.warning("message.suspected", queue=queue, delivery_count=delivery_count)

    # attempts

    def attempted(self, done: Attempted) -> None:
        """Log one wide line for an attempt, whatever came of it, and count it."""
        name, wait_s = _verdict_name(done.verdict)
        attempt, outcome = done.attempt, done.outcome
        self._kind[outcome.kind].inc()
        self._duration[name].observe(attempt.duration_s)
        if done.previous is not None:
            self.series.attempt_gap.observe(attempt.at - done.previous.at - done.previous.duration_s)
        fields: dict[str, Any] = {
            "event_id": done.event.id,
            "subscription_id": done.subscription.id,
            "tenant": done.event.tenant,
            "type": done.event.type,
            "attempt": attempt.number,
            "max_attempts": done.subscription.retry.max_attempts,
            "kind": outcome.kind.value,
            "status": outcome.status,
            "duration_s": round(attempt.duration_s, 4),
            "verdict": name,
        }
        if name == "delivered":
            self._delivered.inc()
            took_s = attempt.at + attempt.duration_s - done.event.arrived_at
            self._delivery.observe(max(took_s, 0.0))  # the clock may have been set back
            if attempt.number == 1:
                self._first_ok.inc()
            else:
                self.series.attempts_by_number.labels(attempt_label(attempt.number), "delivered").inc()
            self.log.info("delivery.attempted", **fields)
            return
        if isinstance(done.verdict, Defer):  # our own side failed: no attempt of the endpoint's
            self.series.deferrals.labels(outcome.kind.value).inc()
        else:
            self._count_failure(done, wait_s)
        fields |= {
            "delivery_id": delivery_id(done.event.id, done.subscription.id),
            "retryable": isinstance(done.verdict, Retry | Defer),
            "wait_s": round(wait_s, 3),
            "error": outcome.detail,
        }
        self.log.warning("delivery.attempted", **fields)

    def _count_failure(self, done: Attempted, wait_s: float) -> None:
        series, outcome, label = self.series, done.outcome, attempt_label(done.attempt.number)
        series.attempts_by_number.labels(label, "failed").inc()
        series.failures.labels(code_label(outcome.kind.value, outcome.status)).inc()
        if isinstance(done.verdict, Retry):
            series.retries.labels(label).inc()
            series.retry_wait.observe(wait_s)

    def deferred(self, event: Event, subscription: Subscription, until: Defer, reason: str) -> None:
        """A target may not be sent now; no attempt is spent."""
        tally = self._deferrals.get(reason)
        if tally is None:
            tally = self._deferrals[reason] = self.series.tally(self.series.deferrals.labels(reason))
        tally.inc()
        self.log.debug(
            "delivery.deferred",
            event_id=event.id,
            subscription_id=subscription.id,
            until=round(until.until, 3),
            reason=reason,
        )

    # ends

    def parked(self, reason: ParkReason, detail: str, *, last: Attempt | None = None, **ids: object) -> None:
        """Something was parked (confirmed).

        Args:
            reason: Why.
            detail: In words.
            last: The last attempt that is remembered, of a delivery.
            ids: What it was; ``subscription_id`` and ``tenant`` of a delivery.
        """
        self.series.parked.labels(reason.value).inc()
        if "subscription_id" in ids:
            code = "none" if last is None else code_label(last.kind.value, last.status)
            self.series.deliveries.labels("parked").inc()
            self.series.parked_by_code.labels(code).inc()
            self._tenants.parked(str(ids.get("tenant")))
            ids["last_failure_code"] = code
        else:
            self.series.events.labels("bad").inc()
        self.log.error("delivery.parked", reason=reason.value, detail=detail, **ids)
        tenant, subject = str(ids.get("tenant", "")), str(ids.get("subscription_id", ""))
        self.on_note(
            Note(
                type=OperatorEventType.DELIVERY_PARKED,
                tenant=tenant,
                subject=subject,
                reason=f"{reason.value}: {detail}",
            )
        )

    def replayed(self, tenant: str, age_s: float | None) -> None:
        """A parked delivery is on its way again; *age_s* is how long it was parked, where it is known."""
        self._tenants.replayed(tenant)
        if age_s is not None:
            self.series.parked_age.labels("replayed").observe(age_s)

    def cancelled(self, event: Event, target: str, reason: str) -> None:
        """Nothing is owed any more."""
        self.series.deliveries.labels("cancelled").inc()
        self.log.info("delivery.cancelled", event_id=event.id, subscription_id=target, reason=reason)

    def entry_expired(self, entry: dict[str, object], age_s: float | None) -> None:
        """A parked entry reached its TTL and was archived, *age_s* after it was parked."""
        self.series.deliveries.labels("archived").inc()
        if age_s is not None:
            self.series.parked_age.labels("archived").observe(age_s)
        self.log.warning(
            "parked.expired", **{f"entry_{k}": entry.get(k) for k in ("id", "reason", "event_id")}
        )

    # endpoints

    def breaker_changed(self, subscription: Subscription, before: str, after: str) -> None:
        """A breaker changed its state."""
        self.series.breakers.labels(before).dec()
        self.series.breakers.labels(after).inc()
        if after == "open":
            self.series.breaker_openings.inc()
        self.log.warning(
            "breaker.changed",
            tenant=subscription.tenant,
            subscription_id=subscription.id,
            before=before,
            after=after,
        )

    def endpoint_disabled(self, subscription: Subscription, reason: str) -> None:
        """An endpoint said that it is gone, or was switched off."""
        self.log.error(
            "endpoint.disabled", tenant=subscription.tenant, subscription_id=subscription.id, reason=reason
        )
        self._note(OperatorEventType.ENDPOINT_DISABLED, subscription, reason)

    def endpoint_recovered(self, subscription: Subscription) -> None:
        """An endpoint that was disabled is enabled again."""
        self.log.info("endpoint.recovered", tenant=subscription.tenant, subscription_id=subscription.id)
        self._note(OperatorEventType.ENDPOINT_RECOVERED, subscription, "enabled again")

    def breaker_decided(self, subscription: Subscription, after: str, reason: str) -> None:
        """This worker opened or closed a breaker; what it took over from others is told by them."""
        if after == "open":
            self._note(OperatorEventType.BREAKER_OPENED, subscription, reason)
        elif after == "closed":
            self._note(OperatorEventType.BREAKER_CLOSED, subscription, reason)

    def _note(self, kind: OperatorEventType, subscription: Subscription, reason: str) -> None:
        self.on_note(Note(type=kind, tenant=subscription.tenant, subject=subscription.id, reason=reason))

    # the daemon

    def waited(self, share: str) -> Callable[[float], None]:
        """Return what counts for how long (in seconds) a job of a share was in hand before it started."""
        return self.series.queue_wait.labels(share).observe

    def tenants_known(self, tenants: Iterable[str]) -> None:
        """These have subscriptions: their series begin at 0, not with the first event."""
        self._tenants.know(tenants)

    def looked(self, standings: Mapping[str, Standing], now: float, *, ready: bool) -> None:
        """Bring the gauges up to date that follow what the worker holds."""
        self._tenants.look(standings, now)
        self.series.ready.set(ready)

    def queues_sized(self, totals: Mapping[str, int], now: float) -> None:
        """The queues were looked at, at *now*; no *totals* when they could not be: none beat old ones."""
        if not totals:
            self.series.queue_messages.clear()
            return
        for label, total in totals.items():
            self.series.queue_messages.labels(label).set(total)
        self.on_sizes(totals)
        if totals.get("parked") == 0:
            self.series.parked_empty.set(int(now))

    def topology_checked(self, findings: Sequence[Finding]) -> None:
        """The broker was compared with the plan; each difference is logged once."""
        counts = Counter(finding.severity for finding in findings)
        for severity in Severity:
            self.series.topology_findings.labels(severity.value).set(counts[severity])
        for finding in findings:
            if finding not in self.findings:
                note = finding.severity is Severity.NOTE
                say = self.log.info if note else self.log.warning
                say("topology.finding", severity=finding.severity.value, detail=str(finding))
        self.findings = findings

    def broker_unreachable(self, connection: str, detail: str, next_try_s: float, *, is_new: bool) -> None:
        """No broker of the list took the connection; *is_new*: the log does not have that reason yet."""
        self.series.connect_failures.labels(connection).inc()
        if is_new:
            wait_s = round(next_try_s, 3)
            self.log.warning("broker.unreachable", connection=connection, detail=detail, next_try_s=wait_s)

    def publish_failed(self, error: Exception, routing_key: str, wait_s: float) -> None:
        """A publish was not confirmed; it is tried again after *wait_s*, the source stays unacked."""
        name = type(error).__name__
        label = {"Unroutable": "unroutable", "Refused": "refused"}.get(name, "unavailable")
        self.series.publish_failures.labels(label).inc()
        self.log.warning(
            "publish.failed", error=label, detail=str(error), routing_key=routing_key, wait_s=round(wait_s, 3)
        )

    def pressed(self, reason: str | None) -> None:
        """Back-pressure began (a reason) or ended (None)."""
        self.series.pressed.set(0 if reason is None else 1)
        if reason is None:
            self.log.info("pressure.ended")
        else:
            self.log.warning("pressure.began", reason=reason)

    def task_failed(self, task: str, error: BaseException) -> None:
        """A bug: a task ended with an error that nobody expected."""
        self.log.error("task.failed", task=task, exc_info=error)

    def said(self, event: str, **fields: object) -> None:
        """Log a step of the daemon's life, such as ``daemon.started``."""
        self.log.info(event, **fields)

    def warned(self, event: str, **fields: object) -> None:
        """Log what an operator should look at."""
        self.log.warning(event, **fields)


def _verdict_name(verdict: Verdict) -> tuple[str, float]:
    match verdict:
        case Delivered():
            return "delivered", 0.0
        case Defer():
            return "defer", 0.0
        case Retry(wait_s=wait_s):
            return "retry", wait_s
        case Park():
            return "park", 0.0
        case Drop():
            return "drop", 0.0
