"""Keep every endpoint that this worker has met, and report the changes of their breakers.

Data flow: FanOut asks :meth:`Endpoints.admit` for each target; Attempts hands each outcome to
:meth:`Endpoints.learn`; changes go to the log, the store and, by Announcements, to the other workers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil

from consumer.core.endpoint.admission import Admission, Hold
from consumer.core.endpoint.agreement import state_name
from consumer.core.endpoint.breaker import Open, State
from consumer.core.endpoint.clock_steps import ClockSteps
from consumer.core.endpoint.rate_limit import RateLimit, per_period
from consumer.core.model import Defer, Outcome
from consumer.core.subscription.subscription import Subscription, endpoint_id
from consumer.flow.base.context import Context
from consumer.flow.endpoints.announcements import Announcements
from consumer.flow.endpoints.endpoint import STATE_LABELS, Endpoint
from consumer.flow.endpoints.prior_knowledge import PriorKnowledge

BUDGET_PERIOD_S = 60.0  #: of the retry budget that all endpoints share
KEPT_HOLD_S = 5.0  #: a pause that is at least as long is written to the store, so that it outlives a restart


class Endpoints:
    """Every endpoint that this worker has met, by subscription.

    Attributes:
        prior: Knowledge of the endpoints that it has not met yet.
        announcements: Changes that other workers have to learn.
    """

    def __init__(self, context: Context) -> None:
        self.prior = PriorKnowledge()
        self.announcements = Announcements(context.clock)
        self._clock = context.clock
        self._bounds = context.bounds
        self._observe = context.observe
        self._sample = context.sample
        self._record = context.record
        self._rate = context.rate
        self._known: dict[str, Endpoint] = {}
        self._forgiven: set[str] = set()  #: subscriptions not met yet whose earlier failures are over
        self._steps = ClockSteps(context.clock.monotonic)
        self._now = 0.0  #: Unix seconds, as last given
        self._workers = 1
        self._budget = _budget(context.bounds.retry_budget, 1)

    def all(self) -> Collection[Endpoint]:
        """Return every endpoint that this worker has met."""
        return self._known.values()

    def known(self, subscription_id: str) -> Endpoint | None:
        """Return the endpoint of a subscription; None where this worker has not met it."""
        return self._known.get(subscription_id)

    def met(self, subscription: Subscription) -> Endpoint | None:
        """Return the endpoint, or None where this worker has not met it at this URL."""
        known = self._known.get(subscription.id)
        return known if known is not None and known.subscription.url == subscription.url else None

    def of(self, subscription: Subscription) -> Endpoint:
        """Return the endpoint; a changed URL makes a new one."""
        known = self._known.get(subscription.id)
        if known is not None:
            if known.subscription is subscription:
                return known
            if known.subscription.url == subscription.url:
                known.rebind(subscription, self._now)
                return known
            self._observe.endpoint_left(subscription, known.state)
        return self._meet(subscription)

    def _meet(self, subscription: Subscription) -> Endpoint:
        now = self._clock.now()
        self.steady(now)
        prior = self.prior.take(subscription, now, self._sample)
        endpoint = self._known[subscription.id] = Endpoint(subscription, self._bounds, self._workers)
        if prior.breaker is not None:
            endpoint.admission.adopt(prior.breaker, now)
        endpoint.admission.pause(prior.held_until)
        if prior.health is not None and subscription.id not in self._forgiven:
            endpoint.health.merge(prior.health)
        self._forgiven.discard(subscription.id)
        self._observe.endpoint_met(subscription, endpoint.state, _since(endpoint.breaker, now))
        if prior.breaker is None:
            self._record.endpoint(subscription, endpoint.state, epoch=endpoint.breaker.epoch)
        return endpoint

    def admit(
        self, endpoint: Endpoint, now: float, *, fresh: bool, reserved: bool, siblings: bool = False
    ) -> Admission:
        """Ask *endpoint* where the worker's rate has room; report a change of its breaker."""
        self.steady(now)
        if self._rate is not None and not self._rate.room(now):
            return Hold(Defer(self._rate.reserve(now)), "paced")
        before = endpoint.admission.breaker
        admission = endpoint.admit(now, fresh=fresh, reserved=reserved, siblings=siblings)
        if endpoint.admission.breaker is not before:
            self._report(endpoint, before)
        if self._rate is not None and not isinstance(admission, Hold):
            self._rate.sent(now)
        return admission

    def postponed_s(self, endpoint: Endpoint, now: float) -> float:
        """Return by how many seconds both budgets postpone a retry that is decided on now (S0-10)."""
        later_s = endpoint.postponed_s(now)
        return later_s if self._budget is None else max(later_s, self._budget.wait_s(now))

    def spend_retry(self, endpoint: Endpoint, now: float) -> None:
        """Take one retry from both budgets."""
        endpoint.spend_retry(now)
        if self._budget is not None:
            self._budget = self._budget.reserved(now)

    def steady(self, now: float) -> None:
        """Move every time that is kept or written along where the wall clock was set since the last call."""
        self._now = now
        by_s = self._steps.set_back_s(now)
        if by_s:
            self._set_back(by_s, now)

    def _set_back(self, by_s: float, now: float) -> None:
        if by_s > 0:
            self._observe.warned("clock.set_back", by_s=round(by_s, 1))
        else:
            self._observe.warned("clock.set_forward", by_s=round(-by_s, 1))
        for endpoint in self._known.values():
            endpoint.set_back(by_s)
            if endpoint.health.shared is not None:
                self._record.health(endpoint.subscription, endpoint.health.account, anew=True)
            if endpoint.pace.held_until - now >= KEPT_HOLD_S:
                self._record.hold(endpoint.subscription, endpoint.pace.held_until, anew=True)
        if self._rate is not None:
            self._rate.set_back(by_s)
        if self._budget is not None:
            self._budget = self._budget.set_back(by_s)
        self.prior.set_back(by_s)
        self.announcements.forget()

    def share(self, workers: int) -> None:
        """Divide every configured rate and retry budget by the number of live workers, at least 1."""
        if workers != self._workers:
            self._workers = workers
            for endpoint in self._known.values():
                endpoint.share(workers)
            shape = _budget(self._bounds.retry_budget, workers)
            if self._budget is not None and shape is not None:
                self._budget = self._budget.reshaped(shape)

    def reset(self, subscription: Subscription | None, now: float) -> None:
        """Close a breaker and end every pause of its endpoint, as an operator asks (S3-3)."""
        self.steady(now)
        if subscription is not None:
            endpoint = self.of(subscription)  # an endpoint that was not met may have a pause in the store
            before = endpoint.breaker
            endpoint.reset(now)
            self._report(endpoint, before)
            self._record.hold(subscription, 0.0)

    def free(self, tenant: object, subscription_id: object) -> None:
        """Free the reservations of a tenant or a subscription; None means any.

        Their deliveries are being kicked, or were cancelled. An endpoint with a rate would wait for them, and
        send nothing else.
        """
        for endpoint in self._known.values():
            of = endpoint.subscription
            if tenant in (None, of.tenant) and subscription_id in (None, of.id):
                endpoint.reservations.free(self._now)
                self._observe.deliveries_leave(of.id)

    def counted(self, tenant: object, subscription_id: object) -> dict[str, int]:
        """Return no deliveries for each subscription of a tenant, or for one; None means any."""
        known = (endpoint.subscription for endpoint in self._known.values())
        return {of.id: 0 for of in known if tenant in (None, of.tenant) and subscription_id in (None, of.id)}

    def left(self, deliveries: Mapping[str, int], *, all_left: bool, comes_back: bool) -> None:
        """Count deliveries that an operator kicked or cancelled as waiting no longer.

        No worker knows which of them another one stored, so each takes an equal share of a part.

        Args:
            deliveries: Their numbers by subscription id.
            all_left: Whether none of these subscriptions' deliveries stayed.
            comes_back: Whether one that left may wait again already.
        """
        for each, count in deliveries.items():
            if all_left and not comes_back:
                self._observe.deliveries_leave(each)
            share = ceil(count / self._workers)
            self._observe.deliveries_left(each, share, all_left=all_left)

    def force(self, subscription: Subscription | None) -> None:
        """Open a breaker until it is reset, as an operator asks."""
        if subscription is not None:
            endpoint = self.of(subscription)
            before = endpoint.breaker
            endpoint.admission.force()
            self._report(endpoint, before)

    def forgive(self, subscription: Subscription) -> None:
        """Forget the failures of an endpoint: its subscription was disabled, or enabled again."""
        known = self._known.get(subscription.id)
        if known is None:
            self._forgiven.add(subscription.id)
        else:
            known.forgive()

    def keep(self, subscription_ids: Collection[str]) -> None:
        """Forget all other subscriptions: their endpoints, announcements and earlier states."""
        self._forgiven.intersection_update(subscription_ids)
        self.prior.keep(subscription_ids)
        self.announcements.keep(subscription_ids)
        for gone in self._known.keys() - subscription_ids:
            left = self._known.pop(gone)
            self._observe.endpoint_left(left.subscription, left.state)

    def learn(self, endpoint: Endpoint, outcome: Outcome, epoch: int, now: float) -> None:
        """Let *endpoint* learn from an attempt; report a change of its breaker."""
        self.steady(now)
        admission, health = endpoint.admission, endpoint.health
        before, held_until = admission.breaker, admission.pace.held_until
        endpoint.learn(outcome, epoch, now, self._sample())
        if admission.breaker is not before:
            self._report(endpoint, before)
        shares = health.failing is not health.shared and health.share(now)
        held = admission.pace.held_until > held_until
        if not (shares or held) or self.met(endpoint.subscription) is not endpoint:  # gone or moved meanwhile
            return
        if held:
            self.announcements.changed(endpoint)
            if endpoint.pace.held_until - now >= KEPT_HOLD_S:
                self._record.hold(endpoint.subscription, endpoint.pace.held_until)
        if shares:
            self._record.health(endpoint.subscription, health.account)
            self.announcements.announce(endpoint)

    def adopt(self, endpoint: Endpoint, state: State, now: float) -> None:
        """Take over the state of a breaker from another worker, which has written it to the store."""
        before = endpoint.state
        endpoint.admission.adopt(state, now, self._sample())
        if endpoint.state != before:
            self._observe.breaker_changed(endpoint.subscription, before, endpoint.state, now)

    def shown(self) -> dict[str, str]:
        """Return the states of the breakers by endpoint id, for operators."""
        return {endpoint_id(e.subscription.tenant, e.subscription.url): e.state for e in self._known.values()}

    def _report(self, endpoint: Endpoint, before: State) -> None:
        subscription, was, state = endpoint.subscription, state_name(before), state_name(endpoint.breaker)
        if self._known.get(subscription.id) is not endpoint or state == was:
            return  # gone or moved meanwhile, or unchanged
        if endpoint.state != STATE_LABELS[type(before)]:
            self._observe.breaker_changed(subscription, STATE_LABELS[type(before)], endpoint.state, self._now)
            reason = "opened by hand" if state == "forced" else f"was {was}"
            self._observe.breaker_decided(subscription, endpoint.state, reason)
        self.announcements.changed(endpoint)
        self._record.endpoint(subscription, state, epoch=endpoint.breaker.epoch)


def _since(state: State, now: float) -> float:
    """Return since when (Unix seconds) a breaker has been in *state*, as far as is known; else *now*."""
    return state.since if isinstance(state, Open) and state.since <= now else now


def _budget(count: int | None, workers: int) -> RateLimit | None:
    return None if count is None else per_period(count, BUDGET_PERIOD_S, workers)
