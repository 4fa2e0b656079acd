"""What a worker knows of one endpoint while it runs: breaker, clock, slots, recent latency.

Data flow: Endpoints asks :meth:`Endpoint.admit` for each target; :meth:`Endpoint.learn` after each attempt.
The decisions are the core's; here they are only kept and joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from consumer.core.endpoint import breaker
from consumer.core.endpoint import pace as clock
from consumer.core.endpoint.breaker import Answer, Change, Closed, Open, Probing, State
from consumer.core.endpoint.health import (
    LONG_S,
    Failing,
    Health,
    failed,
    is_gone,
    merged,
    much_the_same,
    set_back,
)
from consumer.core.endpoint.latency import Latency
from consumer.core.endpoint.pace import Budget, Pace, budget, draw
from consumer.core.model import Attempt, Defer, Outcome
from consumer.core.retry.outcomes import Signal, breaker_signal, is_success, throttles
from consumer.core.subscription.subscription import Subscription
from consumer.core.text.retry_after import parse_retry_after
from consumer.flow.base.context import Bounds
from consumer.flow.endpoints.admission import Admission, Hold, Send, Wait
from consumer.flow.endpoints.reservations import Reservations, frees
from consumer.flow.endpoints.slot_queue import SlotQueue

RATIO_WEIGHT = 0.05  #: of the newest attempt in the recent share of successes
PAUSED_LOOK_S = 60.0  #: what is held by hand looks again after this, or later where much waits
PROBE_PAUSE_S = 1.0  #: what comes while a probe is out looks again after this, or after the probe's age
HELD_INTERVAL_S = 0.005  #: closest spacing of what comes back to one that was ill or is held by hand

STATE_LABELS: Mapping[type, str] = {Closed: "closed", Open: "open", Probing: "probing"}


class Endpoint(SlotQueue):
    """The running state of one endpoint."""

    def __init__(self, subscription: Subscription, bounds: Bounds, workers: int = 1) -> None:
        super().__init__(subscription.concurrency, bounds.quick_wait_s)
        self._bounds = bounds
        self.breaker: State = Closed()
        self.pace = Pace()  #: pauses, Retry-After, rate, slow start: nothing is sent before it
        self.reservations = Reservations()  #: of what is put off
        self._workers = workers
        self._paced = False  #: the pace holds something
        self._calm = True  #: a success has nothing to tell
        self._throttled = 0  #: answers in a row that asked for less
        self._throttled_at = 0.0  #: Unix seconds of the last of them
        self._ratio = 1.0  #: share of successes up to the last failure, newer ones weigh more
        self._taken = 0  #: successes since then
        self._budget: Budget | None = None
        self.failing: Failing | None = None  #: None: the last attempt was taken
        self.told: Failing | None = None  #: as the other workers and the store know it
        self._taken_at = 0.0  #: Unix seconds of the last success; 0: none yet
        self.latency = Latency(bounds.quick_latency_s)
        self.last_failure: Attempt | None = None  #: that counted for the breaker, since the start
        self.rebind(subscription)

    def rebind(self, subscription: Subscription, now: float = 0.0) -> None:
        """Take over changed settings of the subscription; *now* is in Unix seconds."""
        before: Subscription | None = getattr(self, "subscription", None)
        self.subscription = subscription
        if before is None or before.retry != subscription.retry:
            retry = subscription.retry
            self._budget = None if retry.budget is None else budget(retry.budget, retry.budget_period_s)
        if before is not None and frees(before, subscription):
            self.reservations.free(now)
        self.slots = subscription.concurrency
        self.headers: Sequence[tuple[str, str]] = (
            ("content-type", "application/json"),
            ("user-agent", self._bounds.user_agent),
            *subscription.headers,
        )
        self.share(self._workers)

    def share(self, workers: int) -> None:
        """Take this worker's part of the configured rate; *workers* live now, at least 1."""
        self._workers = workers
        self.pace = clock.with_rate(self.pace, self.subscription.rate_per_s, self.subscription.burst, workers)
        self._look()

    def hold(self, until: float) -> None:
        """Send nothing before *until* (Unix seconds): an operator's pause, say."""
        self.pace = clock.pause_until(self.pace, until)
        self._look()

    def reset(self, now: float) -> None:
        """Forget every pause and all that is held against the endpoint, as an operator asks."""
        self.breaker = breaker.reset(self.breaker)
        self.pace = Pace()
        self._throttled = 0
        self.reservations.free(now)
        self.share(self._workers)

    def set_back(self, by_s: float) -> None:
        """Keep every rest and every age: the wall clock was set back, or forward where *by_s* is negative."""
        self.pace = clock.set_back(self.pace, by_s)
        self.breaker = breaker.set_back(self.breaker, by_s)
        known, self.failing = self.failing is self.told, set_back(self.failing, by_s)
        self.told = self.failing if known else set_back(self.told, by_s)
        self.reservations.set_back(by_s)
        self._throttled_at -= by_s
        self._taken_at = max(self._taken_at - by_s, 0.0) if self._taken_at else 0.0
        if self._silent_since is not None:
            self._silent_since -= by_s
        if self._budget is not None:
            self._budget = self._budget.set_back(by_s)
        self._look()

    def force(self) -> None:
        """Send nothing until a reset, as an operator asks."""
        self.breaker = breaker.force(self.breaker)
        self._look()

    def _look(self) -> None:
        """See what every request has to be held against; most endpoints have nothing."""
        state, pace = self.breaker, self.pace
        barred = self.subscription.paused or self.subscription.locked is not None
        self._paced = barred or pace.limits or pace.held_until > 0
        self._calm = (
            isinstance(state, Closed)
            and not (state.failures or state.openings or pace.slow_s or self._throttled or self.failing)
            and not self.subscription.breaker.failure_ratio
        )

    @property
    def state(self) -> str:
        """The breaker's state as a metric label: closed | open | probing."""
        return STATE_LABELS[type(self.breaker)]

    @property
    def success_ratio(self) -> float:
        """Share of the recent attempts that the endpoint took, newer ones weigh more; 1 before the first."""
        return 1 - (1 - self._ratio) * (1 - RATIO_WEIGHT) ** self._taken

    @property
    def is_slow(self) -> bool:
        """Whether the recent p90 latency is at or over ``quick_latency_s``."""
        return self.latency.is_slow

    def is_gone(self, now: float) -> bool:
        """Whether nothing was taken for so long that the subscription is to be disabled (SW-41)."""
        return is_gone(self.failing, now, self.subscription.retry.disable_after_s)

    def forgive(self) -> None:
        """Begin anew with the time in which nothing was taken: it was disabled, or enabled again."""
        self.failing = self.told = None
        self._look()

    @property
    def health(self) -> Health:
        """What others are told: since when it has failed for long, and the last success here."""
        return Health(self.told, self._taken_at)

    def owes_news(self, now: float) -> bool:
        """Say whether others are to be told of its failures, or that they are over; asked once for each."""
        if self.failing is self.told or (self.failing is not None and now - self.failing.first_at < LONG_S):
            return False
        self.told = self.failing
        return True

    def know(self, heard: Health) -> bool:
        """Take over what another worker, or the store, knows of failures.

        Returns:
            True where that is wrong, since there was a success here: then it has to be told.
        """
        own = self.failing
        joined = merged(Health(own, self._taken_at), heard).failing
        if joined != own and not much_the_same(joined, own):
            self.failing = self.told = joined
            self._look()
        return heard.failing is not None and heard.failing.first_at <= self._taken_at

    def postponed_s(self, now: float) -> float:
        """Return by how many seconds the endpoint's budget postpones a retry that is decided on now."""
        return 0.0 if self._budget is None else draw(self._budget, now)[1]

    def spend_retry(self, now: float) -> None:
        """Take one retry from the endpoint's budget."""
        if self._budget is not None:
            self._budget, _ = draw(self._budget, now)

    def admit(self, now: float, *, fresh: bool, reserved: bool, siblings: bool = False) -> Admission:
        """Say whether one request may go now, and take the endpoint's slot if so.

        Args:
            now: Unix seconds.
            fresh: It would be sent straight from the event, where a slow endpoint would hold up its
                siblings' ack; False for delivery messages.
            reserved: It comes back at the time that this endpoint's clock gave it.
            siblings: Its message has further targets, whose retries and ack would wait for it.
        """
        if not isinstance(self.breaker, Closed):
            return self._probe(now, siblings=siblings)
        if self._paced:
            hold = self._ahead_of_pace(now, reserved=reserved)
            if hold is not None:
                return hold
        if fresh and (self.is_slow or self._silent_s(now) >= self._bounds.quick_latency_s):
            return self._put_off(now, now, "slow")
        admission: Send | Wait = Send(self.breaker.epoch)
        if self.in_flight >= self.slots:
            expected_s = (len(self._queue) + 1) * self._interval_s(now)
            if expected_s > self._bounds.quick_wait_s:
                return self._put_off(now, now + expected_s, "saturated")
            admission = Wait(self.breaker.epoch)
        else:
            self._take_slot(now)
        if self._paced:
            self.pace = clock.sent(self.pace, now)
        return admission

    def _probe(self, now: float, *, siblings: bool) -> Send | Hold:
        """Send the probe when it is due; all others are held.

        A probe may hang until its deadline, so it never goes from a message with siblings.
        """
        barred = self._barred(now)
        if barred is not None:
            return barred
        full, on = self.in_flight >= self.slots, self.subscription.breaker.failures > 0
        if full or (siblings and on) or now < self.pace.held_until:  # it, too, waits as Retry-After said
            return self._held_by_breaker(now)
        self.breaker, probe = breaker.admit(self.breaker, now, self.subscription.breaker)
        if not probe:
            return self._held_by_breaker(now)
        self._look()
        self._take_slot(now)
        return Send(self.breaker.epoch)

    def _ahead_of_pace(self, now: float, *, reserved: bool) -> Hold | None:
        """Hold what comes before its time; under a rate, who has no moment of his own stands behind all."""
        barred = self._barred(now)
        if barred is not None:
            return barred
        opens_at = clock.opens_at(self.pace, now)
        behind = self.pace.interval_s and not reserved and now < self.reservations.free_at
        if behind or now < opens_at:
            return self._held_by_pace(now, opens_at)
        if not self.pace.limits:  # a pause is over
            self.pace = Pace()
            self._look()
        return None

    def _barred(self, now: float) -> Hold | None:
        """Hold what may not be sent whatever the endpoint does."""
        if self.subscription.locked is not None:  # nothing is sent unsigned: it comes back, and is parked
            return Hold(Defer(now), "locked")
        if self.subscription.paused:  # nobody knows until when: a look costs the broker next to nothing
            return self._held(now, now + PAUSED_LOOK_S, HELD_INTERVAL_S, "paused")
        return None

    def recall(self, epoch: int, now: float) -> Hold | None:
        """Say why a request admitted a while ago must not go any more, or None.

        Args:
            epoch: Of the breaker when it was admitted.
            now: Unix seconds.
        """
        barred = self._barred(now)
        if barred is not None:
            return barred
        if not isinstance(self.breaker, Closed):
            return None if self.breaker.epoch == epoch else self._held_by_breaker(now)
        opens_at = self.pace.held_until
        if self.breaker.epoch != epoch:  # it was open meanwhile, and starts slowly
            opens_at = max(opens_at, clock.opens_at(self.pace, now))
        if now < opens_at:
            return self._held_by_pace(now, opens_at)
        return None

    def learn(self, outcome: Outcome, epoch: int, now: float, sample: float) -> Change:
        """Take in what an attempt showed; return what it did to the breaker."""
        taken = is_success(outcome)
        if self.latency.learn(outcome.duration_s, taken=taken):
            self._respread(now)
        self._silent_since = now
        if taken:
            self._taken, self._taken_at = self._taken + 1, now
            if self._calm:
                return Change.NONE  # nearly always
        else:
            self._ratio, self._taken = self.success_ratio * (1 - RATIO_WEIGHT), 0
        self._learn_pause(outcome, now)
        signal = breaker_signal(outcome)
        if signal is Signal.UNKNOWN:
            return Change.NONE
        alive = signal is Signal.ALIVE
        if not alive:
            duration_s = outcome.duration_s
            self.last_failure = Attempt(0, now - duration_s, outcome.kind, outcome.status, duration_s)
        answer, policy = Answer(ok=alive, epoch=epoch), self.subscription.breaker
        if self.pace.slow_s and epoch == self.breaker.epoch:
            self.pace = (clock.speed_up if alive else clock.slow_down)(self.pace, now)
        self.breaker, change = breaker.settle(self.breaker, answer, now, policy, sample)
        if change is Change.CLOSED:
            self.start_slowly(now)
        elif isinstance(self.breaker, Closed) and not self.pace.slow_s:
            self.breaker = breaker.recovered(self.breaker)
        self._look()
        return change

    def start_slowly(self, now: float, sample: float = 0.0) -> None:
        """Begin anew after an outage; all workers together take the slow start's pace, each from its part on.

        Args:
            now: Unix seconds.
            sample: In [0, 1): which part; 0 for who saw the success.
        """
        self.latency.recover()
        self._respread(now)
        pace = clock.slow_start(self.pace, now)
        slow_s = pace.slow_s * self._workers
        self.pace = replace(pace, slow_s=slow_s, slow_at=now + slow_s * sample)
        self._look()

    def adopt(self, state: State, now: float, sample: float = 0.0) -> None:
        """Take over what is known of the breaker elsewhere; *sample* as in :meth:`start_slowly`."""
        before, self.breaker = self.breaker, state
        if isinstance(state, Closed) and not isinstance(before, Closed):
            self.start_slowly(now, sample)
        self._look()

    def _learn_pause(self, outcome: Outcome, now: float) -> None:
        """Take in that the endpoint asks for less, saying for how long or not."""
        if is_success(outcome):
            self._throttled, self.failing = 0, None
            return
        if breaker_signal(outcome) is not Signal.UNKNOWN:
            self.failing = failed(self.failing, now)
        asked_s = parse_retry_after(outcome.retry_after, now)
        again = isinstance(self.breaker, Closed) and self.breaker.failures > 0
        asks = throttles(outcome, failed_before=again)
        if not asked_s and asks and now - outcome.duration_s >= self._throttled_at:
            self._throttled, self._throttled_at = self._throttled + 1, now
            times = self._throttled - (asked_s is not None)  # a time that is over is believed once
            asked_s = clock.throttle_s(times) if times else 0.0
        if asked_s and (outcome.status or 0) >= 300:
            self.hold(now + asked_s)

    def _respread(self, now: float) -> None:
        """It is well again: what is held from now on need not stand behind moments of its bad time.

        Under a rate the moments are turns, as far apart as the rate asks for, and stay.
        """
        if not self.pace.interval_s:
            self.reservations.free(now)

    def _interval_s(self, now: float) -> float:
        """Return the distance at which slots become free, as far as it can be seen now."""
        latency_s = max(self.latency.latency_s, self._silent_s(now))
        return clock.saturation_interval_s(latency_s, self.slots)

    def _put_off(self, now: float, earliest: float, reason: str) -> Hold:
        return self._spread(now, earliest, self._interval_s(now), reason)

    def _held(self, now: float, earliest: float, least_s: float, reason: str) -> Hold:
        """Put off what waits for something else than its slots: it counts how fast it is when well."""
        well_s = clock.saturation_interval_s(self.latency.healthy_s, self.slots)
        return self._spread(now, earliest, max(well_s, least_s), reason)

    def _spread(self, now: float, earliest: float, interval_s: float, reason: str) -> Hold:
        """Give out moments from *earliest* on, *interval_s* apart or as far as its rate asks for."""
        rate_s = self.pace.interval_s
        least_s = max(rate_s, min(interval_s, HELD_INTERVAL_S))
        return Hold(Defer(self.reservations.take(now, earliest, interval_s, least_s)), reason, rate_s > 0)

    def _held_by_pace(self, now: float, opens_at: float) -> Hold:
        """Spread what comes before its time; after a pause as fast as requests were taken before it."""
        least_s = HELD_INTERVAL_S if self.pace.slow_s else 0.0
        return self._held(now, opens_at, least_s, "paced")

    def _held_by_breaker(self, now: float) -> Hold:
        state, policy, until = self.breaker, self.subscription.breaker, now
        if isinstance(state, Open):
            until = now + PAUSED_LOOK_S if state.forced else breaker.due_at(state, policy)
        elif isinstance(state, Probing):  # where it hangs, a look comes as seldom as it is old
            until = now + max(PROBE_PAUSE_S, policy.probe_timeout_s - (state.until - now))
        return self._held(now, max(until, self.pace.held_until), HELD_INTERVAL_S, "breaker")
