"""Decide whether a request to one endpoint may go now, and if not, when its delivery comes back and why.

    admit -> Send | Wait | Hold, before a request
    recall -> None | Hold, after a wait for a slot

Data flow: flow.endpoints keeps one :class:`AdmissionControl` per endpoint, asks
:meth:`AdmissionControl.admit` for each delivery, and hands each answer to :meth:`AdmissionControl.learn`.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, TypeAlias

from consumer.core.endpoint import breaker
from consumer.core.endpoint.breaker import Answer, BreakerPolicy, Change, Closed, Open, Probing, State
from consumer.core.endpoint.latency import Latency
from consumer.core.endpoint.pace import UNLIMITED, Pace
from consumer.core.endpoint.reservations import Reservations
from consumer.core.model import Defer

#: A delivery that is held by hand asks again after this, or later where much waits.
PAUSED_LOOK_S: Final = 60.0
#: A delivery that comes while a probe is in flight asks again after this, or after the probe's age.
PROBE_PAUSE_S: Final = 1.0
#: Least distance of the reservations at an endpoint that was ill or is held by hand.
HELD_INTERVAL_S: Final = 0.005


class Send(NamedTuple):
    """The request may go now, in a free slot of the endpoint."""

    epoch: int  #: of the breaker, for the answer


class Wait(NamedTuple):
    """The request may go once it has a slot of the endpoint, which is expected to be free soon."""

    epoch: int  #: of the breaker, for the answer


class Hold(NamedTuple):
    """The request may not go now; no attempt is spent."""

    defer: Defer
    reason: str  #: breaker | paced | paused | slow | saturated | locked
    reserved: bool = False  #: the time is reserved for this delivery: no fresh one goes before it
    by_hand: bool = False  #: an operator paused the subscription or opened the breaker


Admission: TypeAlias = Send | Wait | Hold


class Slots(Protocol):
    """The slots of an endpoint, as far as admission looks at them."""

    capacity: int
    free: int

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        ...


class Limits(NamedTuple):
    """The settings of one subscription that admission keeps to."""

    breaker: BreakerPolicy
    rate_per_s: float | None = None  #: of all workers together
    burst: int | None = None  #: of all workers together
    concurrency: int = 16
    paused: bool = False
    locked: bool = False  #: its secrets cannot be read: nothing is sent unsigned


class AdmissionControl:
    """Admission to one endpoint.

    Attributes:
        breaker: State of the breaker.
        pace: Pauses, ``Retry-After``, rate and slow start; no request starts earlier.
        reservations: Of the deliveries that are held.
        calm: True: a success would change nothing here, and need not be learned.
    """

    __slots__ = (
        "_latency",
        "_limited",
        "_limits",
        "_quick_wait_s",
        "_slots",
        "_workers",
        "breaker",
        "calm",
        "pace",
        "reservations",
    )

    def __init__(
        self, limits: Limits, slots: Slots, latency: Latency, quick_wait_s: float, workers: int = 1
    ) -> None:
        """Begin with a closed breaker.

        Args:
            limits: Settings of the subscription.
            slots: Of the endpoint.
            latency: Of the endpoint.
            quick_wait_s: Longest expected wait for a slot that is waited out in the worker.
            workers: Live workers, at least 1, which share a configured rate.
        """
        self._limits = limits
        self._slots = slots
        self._latency = latency
        self._quick_wait_s = quick_wait_s
        self.breaker: State = Closed()
        self.pace: Pace = UNLIMITED
        self.reservations = Reservations()
        self._limited = False  #: something but the breaker and the slots may hold a request
        self.calm = True
        self.share(workers)

    # decisions

    def admit(self, now: float, *, fresh: bool, reserved: bool, siblings: bool = False) -> Admission:
        """Decide on one request. The caller takes a slot for a :class:`Send`.

        Args:
            now: Unix seconds.
            fresh: It would be sent straight from the event, where a slow endpoint would delay the ack of the
                event for all its targets; False for delivery messages.
            reserved: The delivery comes back at its reservation under a rate.
            siblings: Its message has further targets, whose retries and ack would wait for it.
        """
        state, slots = self.breaker, self._slots
        if not isinstance(state, Closed):
            return self._probe(now, siblings=siblings)
        if self._limited:
            hold = self._ahead_of_pace(now, reserved=reserved)
            if hold is not None:
                return hold
        idle = slots.free == slots.capacity
        if fresh and self._latency.is_slow_at(now, idle=idle):
            return self._hold(now, now, self._slot_interval_s(now), "slow")
        admission: Send | Wait = Send(state.epoch)
        if slots.free <= 0:
            expected_s = (slots.waiting + 1) * self._slot_interval_s(now)
            if expected_s > self._quick_wait_s:
                return self._hold(now, now + expected_s, self._slot_interval_s(now), "saturated")
            admission = Wait(state.epoch)
        elif idle:
            self._latency.began(now)
        if self._limited:
            self.pace = self.pace.sent(now)
        return admission

    def recall(self, epoch: int, now: float) -> Hold | None:
        """Return why a request that was admitted a while ago may not go any more, or None.

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
            opens_at = max(opens_at, self.pace.opens_at(now))
        return self._held_by_pace(now, opens_at) if now < opens_at else None

    def _probe(self, now: float, *, siblings: bool) -> Send | Hold:
        """Let the probe go when it is due; hold all others.

        A probe may hang until its deadline, so it never goes from a message with siblings.
        """
        barred = self._barred(now)
        if barred is not None:
            return barred
        slots, policy = self._slots, self._limits.breaker
        delays = siblings and policy.failures > 0
        if slots.free <= 0 or delays or now < self.pace.held_until:  # a ``Retry-After`` holds the probe, too
            return self._held_by_breaker(now)
        self.breaker, goes = breaker.admit(self.breaker, now, policy)
        if not goes:
            return self._held_by_breaker(now)
        self._look()
        if slots.free == slots.capacity:
            self._latency.began(now)
        return Send(self.breaker.epoch)

    def _barred(self, now: float) -> Hold | None:
        """Hold every request while the subscription is locked or paused."""
        if self._limits.locked:  # the delivery comes back, and is parked
            return Hold(Defer(now), "locked")
        if self._limits.paused:  # the end of the pause is unknown, and asking again costs little
            hold = self._held(now, now + PAUSED_LOOK_S, HELD_INTERVAL_S, "paused")
            return hold._replace(by_hand=True)
        return None

    def _ahead_of_pace(self, now: float, *, reserved: bool) -> Hold | None:
        """Hold a request before its time.

        Under a rate, deliveries without a reservation queue behind those with one.
        """
        barred = self._barred(now)
        if barred is not None:
            return barred
        opens_at = self.pace.opens_at(now)
        behind = self.pace.rate is not None and not reserved and now < self.reservations.free_at
        if behind or now < opens_at:
            return self._held_by_pace(now, opens_at)
        if not self.pace.limits:  # a pause is over
            self.pace = UNLIMITED
            self._look()
        return None

    # reservations

    def _held_by_pace(self, now: float, opens_at: float) -> Hold:
        """Reserve a time after a pause, as close together as requests were taken before it."""
        least_s = 0.0 if self.pace.slow is None else HELD_INTERVAL_S
        return self._held(now, opens_at, least_s, "paced")

    def _held_by_breaker(self, now: float) -> Hold:
        state, policy, until = self.breaker, self._limits.breaker, now
        by_hand = isinstance(state, Open) and state.forced
        if isinstance(state, Open):
            until = now + PAUSED_LOOK_S if state.forced else breaker.due_at(state, policy)
        elif isinstance(state, Probing):  # the longer it hangs, the less often deliveries ask again
            until = now + max(PROBE_PAUSE_S, policy.probe_timeout_s - (state.until - now))
        hold = self._held(now, max(until, self.pace.held_until), HELD_INTERVAL_S, "breaker")
        return hold._replace(by_hand=by_hand)

    def _held(self, now: float, earliest: float, least_s: float, reason: str) -> Hold:
        """Reserve by the speed of the endpoint while it is well: the delivery waits for more than a slot."""
        well_s = self._latency.well_interval_s(self._slots.capacity)
        return self._hold(now, earliest, max(well_s, least_s), reason)

    def _hold(self, now: float, earliest: float, interval_s: float, reason: str) -> Hold:
        """Reserve a time from *earliest* on, *interval_s* after the one before or as the rate asks for."""
        rate_s = self.pace.interval_s
        least_s = max(rate_s, min(interval_s, HELD_INTERVAL_S))
        return Hold(Defer(self.reservations.take(now, earliest, interval_s, least_s)), reason, rate_s > 0)

    def _slot_interval_s(self, now: float) -> float:
        slots = self._slots
        return self._latency.slot_interval_s(now, slots.capacity, idle=slots.free == slots.capacity)

    # answers

    def learn(self, answer: Answer, now: float, sample: float) -> Change:
        """Take in how a request ended; return the change of the breaker.

        Args:
            answer: It says something about the endpoint.
            now: Unix seconds.
            sample: Uniform in [0, 1), for the cooldown's jitter.
        """
        if self.pace.slow is not None and answer.epoch == self.breaker.epoch:
            self.pace = self.pace.sped_up(now) if answer.ok else self.pace.slowed_down(now)
        self.breaker, change = breaker.settle(self.breaker, answer, now, self._limits.breaker, sample)
        if change is Change.CLOSED:
            self._start_slowly(now, 0.0)
        elif isinstance(self.breaker, Closed) and self.pace.slow is None:
            self.breaker = breaker.recovered(self.breaker)
        self._look()
        return change

    def free_held(self, now: float) -> None:
        """Free the reservations that a bad time spaced: the endpoint is well again.

        Under a rate they are as far apart as the rate asks for, and stay.
        """
        if self.pace.rate is None:
            self.reservations.free(now)

    def _start_slowly(self, now: float, sample: float) -> None:
        self._latency.recover()
        self.free_held(now)
        self.pace = self.pace.started_slowly(now, self._workers, sample)

    # changes from outside

    def change(self, limits: Limits, now: float) -> None:
        """Keep to other settings from *now* (Unix seconds) on."""
        if _frees(self._limits, limits):
            self.reservations.free(now)
        self._limits = limits
        self.share(self._workers)

    def share(self, workers: int) -> None:
        """Take this worker's share of the configured rate; *workers* live now, at least 1."""
        self._workers = workers
        self.pace = self.pace.with_rate(self._limits.rate_per_s, self._limits.burst, workers)
        self._look()

    def pause(self, until: float) -> None:
        """Send nothing before *until* (Unix seconds)."""
        self.pace = self.pace.paused(until)
        self._look()

    def adopt(self, state: State, now: float, sample: float = 0.0) -> None:
        """Take over the state of a breaker from another worker, or from the store.

        Args:
            state: Of the breaker.
            now: Unix seconds.
            sample: In [0, 1): the part of the slow start's interval after which this worker begins.
        """
        before, self.breaker = self.breaker, state
        if isinstance(state, Closed) and not isinstance(before, Closed):
            self._start_slowly(now, sample)
        self._look()

    def force(self) -> None:
        """Send nothing until a reset, as an operator asks."""
        self.adopt(breaker.force(self.breaker), 0.0)

    def reset(self, now: float) -> None:
        """End every pause and close the breaker, as an operator asks; the rate stays."""
        self.breaker = breaker.reset(self.breaker)
        self.pace = UNLIMITED
        self.reservations.free(now)
        self.share(self._workers)

    def set_back(self, by_s: float) -> None:
        """Keep the rest of each wait: the wall clock was set back by so many seconds, or forward."""
        self.pace = self.pace.set_back(by_s)
        self.breaker = breaker.set_back(self.breaker, by_s)
        self.reservations.set_back(by_s)
        self._look()

    def _look(self) -> None:
        """Note which checks each request needs; for most endpoints there are none."""
        state, pace, limits = self.breaker, self.pace, self._limits
        self._limited = limits.paused or limits.locked or pace.limits or pace.held_until > 0
        self.calm = (
            isinstance(state, Closed)
            and not (state.failures or state.openings or pace.slow is not None)
            and not limits.breaker.failure_ratio
        )


def _frees(before: Limits, after: Limits) -> bool:
    """Return whether reservations that were given out under the settings of *before* are worthless now."""
    return (before.paused and not after.paused) or (
        before._replace(paused=False, locked=False) != after._replace(paused=False, locked=False)
    )
