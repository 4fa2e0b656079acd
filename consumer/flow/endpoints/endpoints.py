"""Every endpoint that a worker has met; what happens to their breakers is reported here.

Data flow: FanOut asks :meth:`Endpoints.admit` for each target; Attempts tells :meth:`Endpoints.learn`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from consumer.core.endpoint.agreement import state_name
from consumer.core.endpoint.breaker import State
from consumer.core.endpoint.clock_steps import ClockSteps
from consumer.core.endpoint.health import Health
from consumer.core.endpoint.pace import budget, draw
from consumer.core.model import Defer, Outcome
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.flow.base.context import Bounds, Unrecorded
from consumer.flow.base.rate import Rate
from consumer.flow.endpoints.admission import Admission, Hold, Send, Wait
from consumer.flow.endpoints.endpoint import STATE_LABELS, Endpoint
from consumer.flow.observe.observer import Observer
from consumer.ports import Recorder

__all__ = ["Admission", "Endpoint", "Endpoints", "Hold", "Known", "Send", "Wait"]

BUDGET_PERIOD_S = 60.0  #: of the budget that all endpoints share
KEPT_HOLD_S = 5.0  #: a pause of at least so long is written down: no restart ends it


class Known(NamedTuple):
    """What is known elsewhere of an endpoint that this worker meets for the first time."""

    breaker: State | None = None
    health: Health | None = None
    held_until: float = 0.0  #: Unix seconds; a ``Retry-After`` that was met before a restart


class Endpoints:
    """Every endpoint that this worker has met, by subscription."""

    def __init__(
        self,
        bounds: Bounds,
        observe: Observer,
        sample: Callable[[], float],
        record: Recorder | None = None,
        rate: Rate | None = None,
    ) -> None:
        self._bounds = bounds
        self._observe = observe
        self._sample = sample
        self._record = Unrecorded() if record is None else record
        self._rate = rate
        self._known: dict[str, Endpoint] = {}
        self._forgiven: set[str] = set()  #: subscriptions not met yet whose failures before are over
        self.steps = ClockSteps()  #: of the wall clock
        self._now = 0.0  #: Unix seconds, as they were given last
        self._workers = 1
        count = bounds.retry_budget
        self._budget = None if count is None else budget(count, BUDGET_PERIOD_S)
        self.on_change: Callable[[Endpoint], None] = lambda _endpoint: None  #: told of breakers and pauses
        self.on_health: Callable[[Endpoint], None] = lambda _endpoint: None  #: told of lasting failures
        self.on_set_back: Callable[[float], None] = lambda _by_s: None  #: told after a step of the wall clock
        self.begin: Callable[[Subscription], Known] = lambda _subscription: Known()

    def all(self) -> Collection[Endpoint]:
        """Return every endpoint that this worker has met."""
        return self._known.values()

    def met(self, subscription: Subscription) -> Endpoint | None:
        """Return the running state if there is one of this URL."""
        known = self._known.get(subscription.id)
        return known if known is not None and known.subscription.url == subscription.url else None

    def of(self, subscription: Subscription) -> Endpoint:
        """Return the running state; a changed URL starts a new one."""
        known = self._known.get(subscription.id)
        if known is not None:
            if known.subscription is subscription:
                return known
            if known.subscription.url == subscription.url:
                known.rebind(subscription, self._now)
                return known
            self._observe.endpoint_left(known.state)
        started = self._known[subscription.id] = Endpoint(subscription, self._bounds, self._workers)
        begun = self.begin(subscription)
        if begun.breaker is not None:
            started.breaker = begun.breaker
            started.share(self._workers)
        started.hold(begun.held_until)
        if begun.health is not None and subscription.id not in self._forgiven:
            started.know(begun.health)
        self._forgiven.discard(subscription.id)
        self._observe.endpoint_met(started.state)
        if begun.breaker is None:
            self._record.endpoint(subscription, started.state, epoch=started.breaker.epoch)
        return started

    def admit(
        self, endpoint: Endpoint, now: float, *, fresh: bool, reserved: bool, siblings: bool = False
    ) -> Admission:
        """Ask *endpoint*, where the worker's rate has room; report that its breaker sends a probe."""
        self.steady(now)
        if self._rate is not None and not self._rate.room(now):
            return Hold(Defer(self._rate.moment(now)), "paced")
        before = endpoint.breaker
        admission = endpoint.admit(now, fresh=fresh, reserved=reserved, siblings=siblings)
        if endpoint.breaker is not before:
            self._report(endpoint, before)
        if self._rate is not None and not isinstance(admission, Hold):
            self._rate.sent(now)
        return admission

    def postponed_s(self, endpoint: Endpoint, now: float) -> float:
        """Return by how many seconds both budgets postpone a retry that is decided on now (S0-10)."""
        later_s = endpoint.postponed_s(now)
        return later_s if self._budget is None else max(later_s, draw(self._budget, now)[1])

    def spend_retry(self, endpoint: Endpoint, now: float) -> None:
        """Take one retry from both budgets."""
        endpoint.spend_retry(now)
        if self._budget is not None:
            self._budget, _ = draw(self._budget, now)

    def steady(self, now: float) -> None:
        """See whether the wall clock was set since: every time that is kept or written moves along."""
        self._now = now
        by_s = self.steps.set_back_s(now)
        if not by_s:
            return
        if by_s > 0:
            self._observe.warned("clock.set_back", by_s=round(by_s, 1))
        else:
            self._observe.warned("clock.set_forward", by_s=round(-by_s, 1))
        for endpoint in self._known.values():
            endpoint.set_back(by_s)
            if endpoint.told is not None:
                self._record.health(endpoint.subscription, endpoint.health, anew=True)
            if endpoint.pace.held_until - now >= KEPT_HOLD_S:
                self._record.hold(endpoint.subscription, endpoint.pace.held_until, anew=True)
        if self._rate is not None:
            self._rate.set_back(by_s)
        if self._budget is not None:
            self._budget = self._budget.set_back(by_s)
        self.on_set_back(by_s)

    def share(self, workers: int) -> None:
        """Divide every configured rate by the number of workers that live now, at least 1."""
        if workers != self._workers:
            self._workers = workers
            for endpoint in self._known.values():
                endpoint.share(workers)

    def reset(self, subscription: Subscription | None, now: float) -> None:
        """Close a breaker and end every pause of its endpoint, as an operator asks (S3-3)."""
        self.steady(now)
        if subscription is not None:
            endpoint = self.of(subscription)  # met or not: what the store says of it is over, too
            before = endpoint.breaker
            endpoint.reset(now)
            self._report(endpoint, before)
            self._record.hold(subscription, 0.0)

    def free(self, tenant: object, subscription_id: object) -> None:
        """Forget which moments were given out to deliveries of a tenant, or subscription; None is any.

        They were kicked or called off. An endpoint with a rate would wait for them, and send nothing else.
        """
        for endpoint in self._known.values():
            of = endpoint.subscription
            if tenant in (None, of.tenant) and subscription_id in (None, of.id):
                endpoint.reservations.free(self._now)

    def force(self, subscription: Subscription | None) -> None:
        """Open a breaker until it is reset, as an operator asks."""
        if subscription is not None:
            endpoint = self.of(subscription)
            before = endpoint.breaker
            endpoint.force()
            self._report(endpoint, before)

    def forgive(self, subscription: Subscription) -> None:
        """Hold no failures against an endpoint: it was disabled, or enabled again."""
        known = self._known.get(subscription.id)
        if known is None:
            self._forgiven.add(subscription.id)
        else:
            known.forgive()

    def keep(self, subscription_ids: Collection[str]) -> None:
        """Forget the endpoints of subscriptions that are gone."""
        self._forgiven.intersection_update(subscription_ids)
        for gone in self._known.keys() - subscription_ids:
            self._observe.endpoint_left(self._known.pop(gone).state)

    def learn(self, endpoint: Endpoint, outcome: Outcome, epoch: int, now: float) -> None:
        """Let *endpoint* learn from an attempt; report a change of its breaker."""
        self.steady(now)
        before, held_until = endpoint.breaker, endpoint.pace.held_until
        endpoint.learn(outcome, epoch, now, self._sample())
        if endpoint.breaker is not before:
            self._report(endpoint, before)
        owes = endpoint.failing is not endpoint.told and endpoint.owes_news(now)
        held = endpoint.pace.held_until > held_until
        if not (owes or held) or self.met(endpoint.subscription) is not endpoint:  # gone or moved meanwhile
            return
        if held:
            self.on_change(endpoint)
            if endpoint.pace.held_until - now >= KEPT_HOLD_S:
                self._record.hold(endpoint.subscription, endpoint.pace.held_until)
        if owes:
            self._record.health(endpoint.subscription, endpoint.health)
            self.on_health(endpoint)

    def adopt(self, endpoint: Endpoint, state: State, now: float) -> None:
        """Take over what another worker knows of a breaker; it has written that down already."""
        before = endpoint.state
        endpoint.adopt(state, now, self._sample())
        if endpoint.state != before:
            self._observe.breaker_changed(endpoint.subscription, before, endpoint.state)

    def hold(self, endpoint: Endpoint, until: float) -> None:
        """Take over a pause: nothing is sent before *until* (Unix seconds)."""
        endpoint.hold(until)

    def shown(self) -> dict[str, str]:
        """Breaker states by endpoint id, for operators."""
        return {endpoint_id(e.subscription.tenant, e.subscription.url): e.state for e in self._known.values()}

    def _report(self, endpoint: Endpoint, before: State) -> None:
        subscription, was, state = endpoint.subscription, state_name(before), state_name(endpoint.breaker)
        if self._known.get(subscription.id) is not endpoint or state == was:
            return  # gone or moved meanwhile, or as it was
        if endpoint.state != STATE_LABELS[type(before)]:
            self._observe.breaker_changed(subscription, STATE_LABELS[type(before)], endpoint.state)
            reason = "opened by hand" if state == "forced" else f"was {was}"
            self._observe.breaker_decided(subscription, endpoint.state, reason)
        self.on_change(endpoint)
        self._record.endpoint(subscription, state, epoch=endpoint.breaker.epoch)
