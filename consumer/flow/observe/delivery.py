"""Report events, attempts, and the ends of deliveries. Part of the Observer.

The children of labelled series are looked up once: this is on the path of every request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from consumer.core.endpoint.admission import Hold
from consumer.core.fairness.queue import Standing
from consumer.core.message.delivery import DeliveryMessage
from consumer.core.message.oldest_owed import OldestOwed
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
from consumer.core.retry.outcomes import meaning_of
from consumer.core.subscription.subscription import Subscription
from consumer.flow.observe.by_name.tenants import Tenants
from consumer.flow.observe.by_name.troubles import Totals, Troubles
from consumer.flow.observe.orphans import OrphanReporter
from consumer.flow.observe.reporter import Reporter, about, traced
from consumer.flow.observe.unmatched import UnmatchedReporter
from metrics.series import MAX_SUBSCRIPTIONS, Series, attempt_label, code_label
from metrics.tally import Tally


class Attempted(NamedTuple):
    """One finished attempt, with its event and its verdict."""

    event: Event
    subscription: Subscription
    attempt: Attempt
    outcome: Outcome
    verdict: Verdict
    earlier: Sequence[Attempt] = ()  #: of the same delivery, as far as its message contains them
    owed_since: float = 0.0  #: Unix seconds until which an operator held it, if that is after its arrival
    trace_id: str | None = None  #: the recorded trace of the attempt, in hex


class DeliveryReporter(Reporter):
    """Reports on events, attempts and deliveries, by tenant where there is a series for it.

    Attributes:
        troubles: The series of the subscriptions in most trouble.
    """

    def __init__(self, series: Series, log: Any, subscriptions: int = MAX_SUBSCRIPTIONS) -> None:
        super().__init__(series, log)
        #: whether lines of level debug are written: their fields cost more than the rest of a report
        self._is_debugging = bool(getattr(log, "is_debugging", True))
        self.troubles = Troubles(series, subscriptions, self._totals)
        self._log_success = self._line("info", "delivery.attempted")
        self._log_failure = self._line("warning", "delivery.attempted")
        self._book = self.troubles.book
        self.orphans = OrphanReporter(series, log, self._fault_log())
        self.unmatched = UnmatchedReporter(series, self._fault_log())
        self._kind = {kind: series.tally(series.attempts.labels(kind.value)) for kind in OutcomeKind}
        self._delivered = series.tally(series.deliveries.labels("delivered"))
        self._duration = {
            name: series.attempt_duration.labels(name)
            for name in ("delivered", "retry", "defer", "park", "drop")
        }
        self._matched = series.tally(series.events.labels("matched"))
        self._deferrals: dict[str, Tally] = {}
        self._delivery = series.delivery
        self._find: Callable[[str], Subscription | None] = _unknown
        self._owed = OldestOwed()
        self._first_ok = series.tally(series.attempts_by_number.labels("1", "delivered"))
        self._tenants = Tenants(series)
        self._tenant_jobs = self._tenants.jobs

    # tenants

    def waited(self, share: str) -> Callable[[float], None]:
        """Return a counter of the seconds that a job of *share* was in hand before it started."""
        return self._series.queue_wait.labels(share).observe

    def tenants_known(self, tenants: Iterable[str]) -> None:
        """Begin the series of tenants that have subscriptions at 0, not with the first event."""
        self._tenants.know(tenants)

    def tenants_wait(self, standings: Mapping[str, Standing], now: float) -> None:
        """Bring the gauges of all tenants up to date.

        Args:
            standings: Of the tenants that wait.
            now: Unix seconds.
        """
        self._tenants.look(standings, now)

    def tenants_hold(self, held: Mapping[str, int], rerouted: Collection[str]) -> None:
        """Take the deliveries in flight by tenant, and the tenants whose events are rerouted."""
        self._tenants.hold(held, rerouted)

    def tenants_parked(self, sizes: Mapping[str, int]) -> None:
        """Take how many entries are parked now, by tenant."""
        self._tenants.sized(sizes)

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

    def event_repeated(self, event: Event) -> None:
        """Count and log an event that this worker has finished within the window; it is not sent again."""
        self._series.events.labels("duplicate").inc()
        self._log.info(
            "event.repeated", event_id=event.id, tenant=event.tenant, type=event.type, **traced(event)
        )

    def delivery_repeated(self, message: DeliveryMessage, target: str) -> None:
        """Count and log a delivery message that is acked unsent: a copy of it has made its attempt."""
        event, number = message.event, message.attempts_made + 1
        self._series.repeated_deliveries.inc()
        self._log.info("delivery.repeated", **self._ids(event, target), attempt=number)

    def event_readdressed(self, event_id: str, queue: str) -> None:
        """Count an event that went through the inbox hop and has an id now."""
        self._series.events.labels("inbox").inc()
        self._log.debug("event.readdressed", event_id=event_id, queue=queue)

    def message_suspected(self, queue: str, delivery_count: int) -> None:
        """Report a message that came back so often that it is moved unread."""
        self._series.events.labels("suspect").inc()
        self._log.warning("message.suspected", queue=queue, delivery_count=delivery_count)

    def names_from(self, find: Callable[[str], Subscription | None]) -> None:
        """Take the function that finds a subscription by its id, for lines that have to name it."""
        self._find = find

    def _ids(self, event: Event, target: str) -> dict[str, object]:
        """Return the fields of a delivery whose subscription is known by its id."""
        ids = {"event_id": event.id, "tenant": event.tenant, "subscription_id": target}
        return {**ids, **self._names(ids), **traced(event)}

    def _names(self, ids: Mapping[str, object]) -> dict[str, object]:
        """Return the field with the name of a subscription, if it is still known by its id."""
        subscription = self._find(str(ids.get("subscription_id")))
        return {} if subscription is None else {"subscription": subscription.shown}

    # attempts

    def started(self, event: Event, subscription: Subscription) -> None:
        """Log the start of a delivery's first attempt, with the policy of its retries."""
        if not self._is_debugging:
            return
        self._log.debug(
            "delivery.started",
            event_id=event.id,
            **about(subscription),
            **traced(event),
            type=event.type,
            strategy=subscription.retry.name,
            max_attempts=subscription.retry.max_attempts,
        )

    def owed(self, in_flight_at: float, now: float) -> None:
        """Show the age of the oldest event whose delivery is owed; see :meth:`OldestOwed.age_s`."""
        self._series.oldest_delivery.set(self._owed.age_s(in_flight_at, now))

    def attempted(self, done: Attempted) -> None:
        """Count an attempt, and log one wide line for it, whatever its outcome."""
        name, wait_s = _verdict_name(done.verdict)
        attempt, outcome = done.attempt, done.outcome
        self._kind[outcome.kind].inc()
        self._duration[name].observe(attempt.duration_s, done.trace_id)
        if done.earlier:
            self._series.attempt_gap.observe(_gap_s(done.earlier[-1], attempt))
        event, subscription = done.event, done.subscription
        fields: dict[str, Any] = {
            "tenant": subscription.tenant,
            "subscription": subscription.shown,
            "event_id": event.id,
            "subscription_id": subscription.id,
            **traced(event),
            "type": event.type,
            "attempt": attempt.number,
            "max_attempts": subscription.retry.max_attempts,
            "kind": outcome.kind.value,
            "status": outcome.status,
            "duration_s": round(attempt.duration_s, 4),
            "verdict": name,
        }
        if name == "delivered":
            fields["total_s"] = round(self._count_success(done), 3)
            fields["delays_s"] = _delays_s(done)
            self._log_success(fields)
            return
        self._note_failure(done, wait_s)
        if isinstance(done.verdict, Defer):  # our own side failed: no attempt of the endpoint's
            self._series.deferrals.labels(outcome.kind.value).inc()
        else:
            self._count_failure(done, wait_s)
        fields |= {
            "delivery_id": delivery_id(event.id, subscription.id),
            "retryable": isinstance(done.verdict, Retry | Defer),
            "wait_s": round(wait_s, 3),
            "error": _error(outcome),
        }
        self._log_failure(fields)

    def _note_failure(self, done: Attempted, wait_s: float) -> None:
        """Note the trouble of the subscription, and the delivery that is still owed."""
        subscription, attempt, arrived_at = done.subscription.id, done.attempt, done.event.arrived_at
        self.troubles.failed(subscription, done.outcome)
        match done.verdict:
            case Retry():
                until = attempt.at + attempt.duration_s + wait_s
            case Defer(until=until):
                pass
            case _:
                return
        self._book.waits(subscription, until, arrived_at)
        self._owed.saw(max(arrived_at, done.owed_since))

    def _totals(self) -> Totals:
        """Return the requests of all subscriptions since the start, delivered and failed."""
        delivered = self._delivered.count
        return delivered, sum([kind.count for kind in self._kind.values()]) - delivered

    def _count_success(self, done: Attempted) -> float:
        """Count a delivery; return the seconds since its event arrived."""
        attempt, arrived_at = done.attempt, done.event.arrived_at
        self._delivered.inc()
        total_s = max(attempt.at + attempt.duration_s - arrived_at, 0.0)  # the clock may step back
        held_s = max(done.owed_since - arrived_at, 0.0)
        self._delivery.observe(max(total_s - held_s, 0.0), done.trace_id)
        if attempt.number == 1:
            self._first_ok.inc()
        else:
            self._series.attempts_by_number.labels(attempt_label(attempt.number), "delivered").inc()
        return total_s

    def _count_failure(self, done: Attempted, wait_s: float) -> None:
        series, outcome, label = self._series, done.outcome, attempt_label(done.attempt.number)
        series.attempts_by_number.labels(label, "failed").inc()
        series.failures.labels(code_label(outcome.kind.value, outcome.status)).inc()
        if isinstance(done.verdict, Retry):
            series.retries.labels(label).inc()
            series.retries_by_kind.labels(outcome.kind.value).inc()
            series.retry_wait.observe(wait_s)

    def still_held(self, message: DeliveryMessage) -> None:
        """Note a delivery that its endpoint still holds; an operator's hold does not count."""
        self._owed.saw(message.owed_since)

    def deferred(self, event: Event, subscription: Subscription, hold: Hold, owed_since: float = 0.0) -> None:
        """Count a target that may not be sent now; no attempt is spent.

        One that an operator holds back is not late, and was not until *owed_since* (Unix seconds).
        """
        reason, until = hold.reason, hold.defer.until
        tally = self._deferrals.get(reason)
        if tally is None:
            tally = self._deferrals[reason] = self._series.tally(self._series.deferrals.labels(reason))
        tally.inc()
        if not hold.by_hand:
            self._owed.saw(max(event.arrived_at, owed_since))
        self._book.held(subscription.id, reason)
        self._book.waits(subscription.id, until, event.arrived_at)
        if not self._is_debugging:
            return
        self._log.debug(
            "delivery.deferred",
            event_id=event.id,
            **about(subscription),
            **traced(event),
            until=round(until, 3),
            reason=reason,
        )

    # ends

    def parked(self, reason: ParkReason, detail: str, *, last: Attempt | None = None, **ids: object) -> None:
        """Report an entry that was parked (confirmed).

        Args:
            reason: Why.
            detail: The reason in words.
            last: The last known attempt of a delivery.
            ids: Ids of the entry; ``subscription_id``, ``tenant`` and perhaps ``trace_id`` of a delivery.
        """
        self._series.parked.labels(reason.value).inc()
        if "subscription_id" in ids:
            code = "none" if last is None else code_label(last.kind.value, last.status)
            self._series.deliveries.labels("parked").inc()
            self._series.parked_by_code.labels(code).inc()
            self._tenants.parked(str(ids.get("tenant")))
            ids |= {**self._names(ids), "last_failure_code": code}
        else:
            self._series.events.labels("bad").inc()
        self._log.error("delivery.parked", reason=reason.value, detail=detail, **ids)
        tenant, subject = str(ids.get("tenant", "")), str(ids.get("subscription_id", ""))
        self.notes.notify(
            Note(
                type=OperatorEventType.DELIVERY_PARKED,
                tenant=tenant,
                subject=subject,
                reason=f"{reason.value}: {detail}",
            )
        )

    def replayed(self, tenant: str, age_s: float | None) -> None:
        """Count a parked delivery that is sent again; it was parked for *age_s*, where that is known."""
        self._tenants.replayed(tenant)
        if age_s is not None:
            self._series.parked_age.labels("replayed").observe(age_s)

    def purged(self, ages_s: Iterable[float]) -> None:
        """An operator removed entries from the parked queue, each after so many seconds in it."""
        for age_s in ages_s:
            self._series.parked_age.labels("purged").observe(age_s)

    def cancelled(self, event: Event, target: str, reason: str) -> None:
        """Report a delivery that is not owed any more."""
        self._series.deliveries.labels("cancelled").inc()
        self._log.info("delivery.cancelled", **self._ids(event, target), reason=reason)

    def entry_expired(self, entry: dict[str, object], age_s: float | None) -> None:
        """Report a parked entry that reached its TTL and was archived, *age_s* after it was parked."""
        self._series.deliveries.labels("archived").inc()
        if age_s is not None:
            self._series.parked_age.labels("archived").observe(age_s)
        owner = {k: entry[k] for k in ("tenant", "subscription_id") if entry.get(k)}
        shown = {f"entry_{k}": entry.get(k) for k in ("id", "reason", "event_id")}
        self._log.warning("parked.expired", **owner, **shown, **self._names(owner))


def _unknown(_subscription_id: str) -> None:
    """Find no subscription, before there are any."""


def _gap_s(before: Attempt, after: Attempt) -> float:
    """Return the seconds from the end of one attempt to the start of the next."""
    return after.at - before.at - before.duration_s


def _delays_s(done: Attempted) -> list[float]:
    """Return the delays between the attempts of a delivery, in seconds, as they turned out to be."""
    if not done.earlier:
        return []
    return [round(_gap_s(one, next_), 3) for one, next_ in pairwise((*done.earlier, done.attempt))]


def _error(outcome: Outcome) -> str:
    """Return the reason of a failure, never empty (S1-17): the sender's words, or the status's meaning."""
    if outcome.detail or outcome.status is None:
        return outcome.detail or meaning_of(outcome).why
    return f"HTTP {outcome.status}: {meaning_of(outcome).why}"


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
