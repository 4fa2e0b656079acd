"""Say what happened: one log line and the metric updates per finished step. Nobody else logs or counts.

Event names are static ``noun.verbed``. Ids may be logged; bodies and secrets never are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import structlog

from consumer.core.model import (
    Attempt,
    Defer,
    Delivered,
    Drop,
    Event,
    Kind,
    Outcome,
    Park,
    ParkReason,
    Retry,
    Verdict,
)
from consumer.core.parked import delivery_id
from consumer.core.subscription import Subscription
from metrics.series import Series, Tally, attempt_label


class Attempted(NamedTuple):
    """One finished attempt with all that is known of it."""

    event: Event
    subscription: Subscription
    attempt: Attempt
    outcome: Outcome
    verdict: Verdict


class Observer:
    """Turns finished steps into log lines and metrics.

    The children of labelled series are looked up once: this is on the path of every request.
    """

    def __init__(self, series: Series, log: Any = None) -> None:
        self.series = series
        self.log: Any = structlog.get_logger() if log is None else log
        series.pressed.set(1)  # a publisher begins without a connection, and tells only of changes
        self._kind = {kind: series.tally(series.attempts.labels(kind.value)) for kind in Kind}
        self._delivered = series.tally(series.deliveries.labels("delivered"))
        self._duration = {
            name: series.attempt_duration.labels(name)
            for name in ("delivered", "retry", "defer", "park", "drop")
        }
        self._matched = series.tally(series.events.labels("matched"))
        self._tenant_jobs: dict[str, Tally] = {}
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
            label = self.series.tenant_label(tenant)
            tally = self._tenant_jobs.get(label)
            if tally is None:
                tally = self._tenant_jobs[label] = self.series.tally(self.series.tenant_jobs.labels(label))
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
            if attempt.number == 1:
                self._first_ok.inc()
            else:
                self.series.attempts_by_number.labels(attempt_label(attempt.number), "delivered").inc()
            self.log.info("delivery.attempted", **fields)
            return
        label = attempt_label(attempt.number)
        if isinstance(done.verdict, Defer):  # our own proxy failed: no attempt of the endpoint's
            self.series.deferrals.labels("proxy").inc()
        else:
            self.series.attempts_by_number.labels(label, "failed").inc()
        if isinstance(done.verdict, Retry):
            self.series.retries.labels(label).inc()
            self.series.retry_wait.observe(wait_s)
        fields |= {
            "delivery_id": delivery_id(done.event.id, done.subscription.id),
            "retryable": isinstance(done.verdict, Retry | Defer),
            "wait_s": round(wait_s, 3),
            "error": outcome.detail,
        }
        self.log.warning("delivery.attempted", **fields)

    def deferred(self, event: Event, subscription: Subscription, until: Defer, reason: str) -> None:
        """A target may not be sent now; no attempt is spent."""
        self.series.deferrals.labels(reason).inc()
        self.log.debug(
            "delivery.deferred",
            event_id=event.id,
            subscription_id=subscription.id,
            until=round(until.until, 3),
            reason=reason,
        )

    # ends

    def parked(self, reason: ParkReason, detail: str, **ids: object) -> None:
        """Something was parked (confirmed)."""
        self.series.parked.labels(reason.value).inc()
        if "subscription_id" in ids:
            self.series.deliveries.labels("parked").inc()
        else:
            self.series.events.labels("bad").inc()
        self.log.error("delivery.parked", reason=reason.value, detail=detail, **ids)

    def cancelled(self, event: Event, target: str, reason: str) -> None:
        """Nothing is owed any more."""
        self.series.deliveries.labels("cancelled").inc()
        self.log.info("delivery.cancelled", event_id=event.id, subscription_id=target, reason=reason)

    def entry_expired(self, entry: dict[str, object]) -> None:
        """A parked entry reached its TTL and was archived."""
        self.series.deliveries.labels("archived").inc()
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

    # the daemon

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

    def reloaded(self, enabled: int, disabled: int) -> None:
        """The subscriptions in memory are those of the store."""
        self.series.reloads.labels("ok").inc()
        self.series.subscriptions.labels("true").set(enabled)
        self.series.subscriptions.labels("false").set(disabled)
        self.log.info("subscriptions.loaded", enabled=enabled, disabled=disabled)

    def reload_failed(self, error: Exception, *, repeated: bool = False) -> None:
        """The store could not be read or written; delivery goes on with what is in memory.

        Args:
            error: What is wrong.
            repeated: The look before found the same, and it is logged already.
        """
        self.series.reloads.labels("failed").inc()
        if not repeated:
            self.log.error("subscriptions.reload_failed", detail=str(error))

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
