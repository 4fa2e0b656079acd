"""The running state of one endpoint: admission, slots, latency, health, and its retry budget.

Data flow: Endpoints asks :meth:`Endpoint.admit` for each target, and hands each outcome to
:meth:`Endpoint.learn`. core.endpoint decides; here the decisions are kept and joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumer.core.endpoint.admission import Admission, AdmissionControl, Hold, Limits, Send
from consumer.core.endpoint.agreement import News, behind, yielding
from consumer.core.endpoint.breaker import Answer, Change, Closed, Open, Probing, State
from consumer.core.endpoint.health import HealthTracker, is_gone
from consumer.core.endpoint.latency import Latency
from consumer.core.endpoint.pace import NOT_THROTTLED, Pace, Throttle
from consumer.core.endpoint.rate_limit import RateLimit, per_period
from consumer.core.endpoint.reservations import Reservations
from consumer.core.model import Attempt, Outcome
from consumer.core.retry.outcomes import Signal, breaker_signal, is_success, throttles
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.core.text.retry_after import parse_retry_after
from consumer.flow.base.context import Bounds
from consumer.flow.base.slot_queue import SlotQueue

PATIENCE_FACTOR = 4  #: a request waits this many times longer for a slot than ``quick_wait_s``
LEAST_PATIENCE_S = 0.1

STATE_LABELS: Mapping[type, str] = {Closed: "closed", Open: "open", Probing: "probing"}


class Endpoint:
    """One endpoint while the worker runs.

    Attributes:
        subscription: Whose endpoint it is.
        id: Id of the endpoint; another URL makes another endpoint.
        headers: Of every request, but for those of the event and the signature.
        slots: For its requests; :class:`Send` comes with one of them.
        latency: Of its answers.
        health: Its successes and failures.
        admission: Breaker, pace and reservations.
        last_failure: The last attempt since the start that counted for the breaker.
    """

    def __init__(self, subscription: Subscription, bounds: Bounds, workers: int = 1) -> None:
        quick_wait_s = bounds.quick_wait_s
        self.subscription = subscription
        self.id = endpoint_id(subscription.tenant, subscription.url)
        self.headers = _headers(subscription, bounds)
        self.slots = SlotQueue(
            subscription.concurrency, patience_s=max(PATIENCE_FACTOR * quick_wait_s, LEAST_PATIENCE_S)
        )
        self.latency = Latency(bounds.quick_latency_s)
        self.health = HealthTracker()
        self.admission = AdmissionControl(
            _limits(subscription), self.slots, self.latency, quick_wait_s, workers
        )
        self.last_failure: Attempt | None = None
        self._bounds = bounds
        self._throttle: Throttle = NOT_THROTTLED
        self._workers = workers
        self._budget = _budget(subscription, workers)

    def rebind(self, subscription: Subscription, now: float = 0.0) -> None:
        """Take over changed settings of the subscription; *now* is in Unix seconds."""
        before, self.subscription = self.subscription, subscription
        if before.retry != subscription.retry:
            self._budget = _budget(subscription, self._workers)
        self.slots.resize(subscription.concurrency)
        self.headers = _headers(subscription, self._bounds)
        self.admission.change(_limits(subscription), now)

    def share(self, workers: int) -> None:
        """Take this worker's share of the endpoint's rate and retry budget, of so many live workers."""
        self._workers = workers
        self.admission.share(workers)
        shape = _budget(self.subscription, workers)
        if self._budget is not None and shape is not None:
            self._budget = self._budget.reshaped(shape)

    def reset(self, now: float) -> None:
        """Forget every pause and close the breaker, as an operator asks; *now* is in Unix seconds."""
        self.admission.reset(now)
        self._throttle = self._throttle.ended()

    def set_back(self, by_s: float) -> None:
        """Keep every wait and every age: the wall clock was set back by so many seconds, or forward."""
        self.admission.set_back(by_s)
        self.latency.set_back(by_s)
        self.health.set_back(by_s)
        self._throttle = self._throttle.set_back(by_s)
        if self._budget is not None:
            self._budget = self._budget.set_back(by_s)

    @property
    def breaker(self) -> State:
        """The state of the breaker."""
        return self.admission.breaker

    @property
    def pace(self) -> Pace:
        """Pauses, ``Retry-After``, rate and slow start."""
        return self.admission.pace

    @property
    def reservations(self) -> Reservations:
        """The reservations of the deliveries that it holds."""
        return self.admission.reservations

    @property
    def state(self) -> str:
        """The breaker's state as a metric label: closed | open | probing."""
        return STATE_LABELS[type(self.breaker)]

    @property
    def success_ratio(self) -> float:
        """Share of the recent attempts that the endpoint took; 1 before the first."""
        return self.health.success_ratio

    def is_gone(self, now: float) -> bool:
        """Return whether it took nothing for so long that the subscription is to be disabled (SW-41)."""
        return is_gone(self.health.failing, now, self.subscription.retry.disable_after_s)

    def forgive(self) -> None:
        """Forget the failures: the subscription was disabled, or enabled again."""
        self.health.forgive()

    def postponed_s(self, now: float) -> float:
        """Return by how many seconds the endpoint's budget postpones a retry that is decided on now."""
        return 0.0 if self._budget is None else self._budget.wait_s(now)

    def spend_retry(self, now: float) -> None:
        """Take one retry from the endpoint's budget."""
        if self._budget is not None:
            self._budget = self._budget.reserved(now)

    def admit(self, now: float, *, fresh: bool, reserved: bool, siblings: bool = False) -> Admission:
        """Decide on one request, and take a slot for it if it may go; see :meth:`AdmissionControl.admit`."""
        admission = self.admission.admit(now, fresh=fresh, reserved=reserved, siblings=siblings)
        if isinstance(admission, Send):
            self.slots.take()
        return admission

    def recall(self, epoch: int, now: float) -> Hold | None:
        """Return why an admitted request may not go any more; see :meth:`AdmissionControl.recall`."""
        return self.admission.recall(epoch, now)

    def learn(self, outcome: Outcome, epoch: int, now: float, sample: float) -> Change:
        """Take in the outcome of a request; return the change of the breaker.

        Args:
            outcome: Of the request.
            epoch: Of the breaker when the request was admitted.
            now: Unix seconds.
            sample: Uniform in [0, 1), for the cooldown's jitter.
        """
        taken, admission = is_success(outcome), self.admission
        if self.latency.learn(outcome.duration_s, now, taken=taken):
            admission.free_held(now)
        if taken:
            self.health.taken(now)
            if self._throttle.times:
                self._throttle = self._throttle.ended()
            if admission.calm:
                return Change.NONE  # nearly always
        signal = breaker_signal(outcome)
        if not taken:
            self.health.missed(now, counts=signal is not Signal.UNKNOWN)
            self._learn_pause(outcome, now)
        if signal is Signal.UNKNOWN:
            return Change.NONE
        alive = signal is Signal.ALIVE
        if not alive:
            duration_s = outcome.duration_s
            self.last_failure = Attempt(0, now - duration_s, outcome.kind, outcome.status, duration_s)
        return admission.learn(Answer(ok=alive, epoch=epoch), now, sample)

    def _learn_pause(self, outcome: Outcome, now: float) -> None:
        """Pause where the endpoint asks for fewer requests, with a time or without one."""
        pause_s, state = parse_retry_after(outcome.retry_after, now), self.breaker
        if not pause_s:
            again = isinstance(state, Closed) and state.failures > 0
            if throttles(outcome, failed_before=again):
                timed = pause_s is not None
                self._throttle, pause_s = self._throttle.asked(now, outcome.duration_s, timed=timed)
        if pause_s and (outcome.status or 0) >= 300:
            self.admission.pause(now + pause_s)

    def yield_to(self, news: News, now: float, sample: float, *, first: bool) -> None:
        """Probe after another worker, where *news* of it show that it is to probe before this one.

        Args:
            news: Of a worker whose breaker is in the same epoch.
            now: Unix seconds.
            sample: Uniform in [0, 1), for the jitter of the probe.
            first: The other worker comes first by its name.
        """
        state = behind(self.breaker, news, now, sample) if first else self.breaker
        self.admission.adopt(yielding(state, news, now, sample), now)


def _limits(subscription: Subscription) -> Limits:
    return Limits(
        breaker=subscription.breaker,
        rate_per_s=subscription.rate_per_s,
        burst=subscription.burst,
        concurrency=subscription.concurrency,
        paused=subscription.paused,
        locked=subscription.locked is not None,
    )


def _budget(subscription: Subscription, workers: int) -> RateLimit | None:
    retry = subscription.retry
    return None if retry.budget is None else per_period(retry.budget, retry.budget_period_s, workers)


def _headers(subscription: Subscription, bounds: Bounds) -> Sequence[tuple[str, str]]:
    return (
        ("content-type", "application/json"),
        ("user-agent", bounds.user_agent),
        *subscription.headers,
    )
