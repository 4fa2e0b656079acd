"""What a worker knows of each endpoint while it runs: breaker, clocks, slots, recent latency.

Data flow: Deliverer asks :meth:`Endpoint.admit` for each target; :meth:`Endpoint.learn` after each attempt.
The decisions are the core's; here they are only kept and joined.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from consumer.core import breaker, clock
from consumer.core.breaker import Answer, Change, Closed, Open, Probing, State
from consumer.core.classify import Signal, breaker_signal, is_success
from consumer.core.clock import EndpointClock
from consumer.core.model import Defer, Outcome
from consumer.core.retry import parse_retry_after
from consumer.core.subscription import Subscription, endpoint_id
from consumer.flow.observe import Observer
from consumer.flow.world import Bounds, Unrecorded
from consumer.ports import Recorder

RECENT = 20  #: attempts that the p90 looks at
LATENCY_WEIGHT = 0.2  #: of the newest attempt in the moving average
FIRST_LATENCY_S = 0.1  #: assumed before the first answer
LINE_FACTOR = 4  #: a slot that was expected within ``quick_wait_s`` is waited for this many times longer
SHORTEST_LINE_S = 0.1
PROBE_PAUSE_S = 1.0  #: what comes while a probe is out looks again after this
PAUSED_LOOK_S = 60.0  #: what is paused by hand looks again after this, or later where much waits
HELD_INTERVAL_S = 0.005  #: closest spacing of what comes back to an endpoint that is held

STATE_LABELS: Mapping[type, str] = {Closed: "closed", Open: "open", Probing: "probing"}


class Send(NamedTuple):
    """Go: an endpoint slot is taken."""

    epoch: int  #: of the breaker, for the answer


class Wait(NamedTuple):
    """A slot is expected soon: wait for :meth:`Endpoint.slot`."""

    epoch: int


class Hold(NamedTuple):
    """Not now; no attempt is spent."""

    defer: Defer
    reason: str  #: breaker | paced | paused | slow | saturated | locked


Admission: TypeAlias = Send | Wait | Hold


class Endpoint:
    """The running state of one endpoint."""

    def __init__(self, subscription: Subscription, bounds: Bounds, workers: int = 1) -> None:
        self._bounds = bounds
        self._workers = workers
        self.breaker: State = Closed()
        self.pace = EndpointClock()  #: pauses, Retry-After, slow start: nothing is sent before it
        self.backlog = EndpointClock()  #: spreads what is put off over the endpoint's own speed
        self.in_flight = 0
        self.latency_s = FIRST_LATENCY_S
        self._silent_since: float | None = None  #: Unix seconds; requests are out, and none has ended since
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._slow = 0
        self._line: deque[tuple[asyncio.Future[bool], float]] = (
            deque()
        )  #: who waits, and until which loop time
        self._sweep: asyncio.TimerHandle | None = None
        self.rebind(subscription)

    def rebind(self, subscription: Subscription) -> None:
        """Take over changed settings of the subscription."""
        self.subscription = subscription
        self.headers: Sequence[tuple[str, str]] = (
            ("content-type", "application/json"),
            ("user-agent", self._bounds.user_agent),
            *subscription.headers,
        )

    @property
    def state(self) -> str:
        """The breaker's state as a metric label: closed | open | probing."""
        return STATE_LABELS[type(self.breaker)]

    @property
    def is_slow(self) -> bool:
        """Whether the recent p90 latency is at or over ``quick_latency_s``."""
        return self._slow * 10 > len(self._recent)

    def admit(self, now: float, *, fresh: bool, reserved: bool) -> Admission:
        """Say whether one request may go now, and take the endpoint's slot if so.

        Args:
            now: Unix seconds.
            fresh: It would be sent straight from the event, where a slow endpoint would hold up its
                siblings' ack; False for delivery messages.
            reserved: It comes back at the time that this endpoint's clock gave it.
        """
        policy = self.subscription.breaker
        if self.subscription.locked is not None:  # nothing is sent unsigned: it comes back, and is parked
            return Hold(Defer(now), "locked")
        if self.subscription.paused:
            return self._held_by_hand(now)
        if not isinstance(self.breaker, Closed):
            full = self.in_flight >= self.subscription.concurrency
            if full or now < self.pace.held_until:  # a probe, too, waits as long as Retry-After said
                return self._held_by_breaker(now)
            self.breaker, probe = breaker.admit(self.breaker, now, policy)
            if not probe:
                return self._held_by_breaker(now)
            self._take_slot(now)
            return Send(self.breaker.epoch)
        if not clock.ready(self.pace, now, reserved=reserved):
            self.pace, at = clock.reserve(self.pace, now)
            return Hold(Defer(at), "paced")
        if fresh and (self.is_slow or self._silent_s(now) >= self._bounds.quick_latency_s):
            return self._put_off(now, now, "slow")
        admission: Send | Wait = Send(self.breaker.epoch)
        if self.in_flight >= self.subscription.concurrency:
            expected_s = (len(self._line) + 1) * self._interval_s(now)
            if expected_s > self._bounds.quick_wait_s:
                return self._put_off(now, now + expected_s, "saturated")
            admission = Wait(self.breaker.epoch)
        else:
            self._take_slot(now)
        if self.pace.spacing_s and not reserved:
            self.pace, _ = clock.reserve(self.pace, now)
        return admission

    def recall(self, epoch: int, now: float) -> Hold | None:
        """Say why a request admitted a while ago must not go any more, or None.

        Args:
            epoch: Of the breaker when it was admitted.
            now: Unix seconds.
        """
        if self.subscription.locked is not None:
            return Hold(Defer(now), "locked")
        if self.subscription.paused:
            return self._held_by_hand(now)
        if not isinstance(self.breaker, Closed):
            return None if self.breaker.epoch == epoch else self._held_by_breaker(now)
        if now < self.pace.held_until:
            self.pace, at = clock.reserve(self.pace, now)
            return Hold(Defer(at), "paced")
        return None

    async def slot(self) -> bool:
        """Wait in line for a slot of this endpoint; no global slot may be held meanwhile.

        Returns:
            False without a slot: the slots are held for longer than the latency let expect.
        """
        if self.in_flight < self.subscription.concurrency and not self._line:
            self._take_slot(None)
            return True
        loop = self._loop
        turn: asyncio.Future[bool] = loop.create_future()
        self._line.append((turn, loop.time() + self._patience_s))
        if self._sweep is None:
            self._sweep = loop.call_later(self._patience_s, self._send_away)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.release()
            raise

    def release(self) -> None:
        """Give the slot to the next in line, or back."""
        while self._line and self.in_flight <= self.subscription.concurrency:
            turn, _ = self._line.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self.in_flight -= 1

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def _patience_s(self) -> float:
        return max(LINE_FACTOR * self._bounds.quick_wait_s, SHORTEST_LINE_S)

    def _send_away(self) -> None:
        """Tell those who have stood in line for too long: one timer for the line, not one for each."""
        now, self._sweep = self._loop.time(), None
        while self._line and (self._line[0][0].done() or self._line[0][1] <= now):
            turn, _ = self._line.popleft()
            if not turn.done():
                turn.set_result(False)
        if self._line:
            self._sweep = self._loop.call_at(self._line[0][1], self._send_away)

    def learn(self, outcome: Outcome, epoch: int, now: float, sample: float) -> Change:
        """Take in what an attempt showed; return what it did to the breaker."""
        self._learn_latency(outcome.duration_s)
        self._silent_since = now
        state = self.breaker
        untroubled = isinstance(state, Closed) and not state.failures and not self.pace.slow_s
        if untroubled and is_success(outcome):
            return Change.NONE  # nearly always
        asked_s = parse_retry_after(outcome.retry_after, now)
        if asked_s and (outcome.status or 0) >= 300:
            self.pace = clock.pause_until(self.pace, now + asked_s)
        signal = breaker_signal(outcome)
        if signal is Signal.UNKNOWN:
            return Change.NONE
        alive = signal is Signal.ALIVE
        if alive and self.pace.slow_s:
            self._speed_up(now)
        answer = Answer(ok=alive, epoch=epoch)
        self.breaker, change = breaker.settle(self.breaker, answer, now, self.subscription.breaker, sample)
        if change is Change.CLOSED:
            self.start_slowly(now)
        return change

    def start_slowly(self, now: float) -> None:
        """Begin anew after an outage; all workers together take the slow start's pace."""
        pace = clock.slow_start(self.pace, now)
        self.pace = replace(pace, slow_s=pace.slow_s * self._workers)

    def share(self, workers: int) -> None:
        """Take this worker's part of what all send together; *workers* live now, at least 1."""
        self._workers = workers

    def _learn_latency(self, duration_s: float) -> None:
        self.latency_s += LATENCY_WEIGHT * (duration_s - self.latency_s)
        slow = duration_s >= self._bounds.quick_latency_s
        if len(self._recent) == RECENT and self._recent[0]:
            self._slow -= 1
        self._recent.append(slow)
        self._slow += slow

    def _take_slot(self, now: float | None) -> None:
        if not self.in_flight:
            self._silent_since = now
        self.in_flight += 1

    def _silent_s(self, now: float) -> float:
        """Return for how long requests have been out of which none has ended; each takes at least that."""
        since = self._silent_since
        return now - since if since is not None and self.in_flight else 0.0

    def _interval_s(self, now: float) -> float:
        latency_s = max(self.latency_s, self._silent_s(now))
        return clock.saturation_interval_s(latency_s, self.subscription.concurrency)

    def _speed_up(self, now: float) -> None:
        """A success during the slow start: what is fresh need not stand behind what was reserved slowly."""
        faster = clock.speed_up(self.pace)
        earliest = max(now + faster.spacing_s, faster.held_until)
        self.pace = replace(faster, next_at=min(faster.next_at, earliest))

    def _put_off(self, now: float, earliest: float, reason: str) -> Hold:
        return self._spread(now, earliest, self._interval_s(now), reason)

    def _spread(self, now: float, earliest: float, interval_s: float, reason: str) -> Hold:
        """Give out times from *earliest* on, *interval_s* apart."""
        self.backlog, at = clock.spread(self.backlog, now, earliest, interval_s)
        return Hold(Defer(at), reason)

    def _held_by_hand(self, now: float) -> Hold:
        """Nobody knows until when: look again, at a rate that costs the broker next to nothing."""
        return self._spread(now, now + PAUSED_LOOK_S, HELD_INTERVAL_S, "paused")

    def _held_by_breaker(self, now: float) -> Hold:
        until = self.breaker.until if isinstance(self.breaker, Open) else now + PROBE_PAUSE_S
        interval_s = max(self._interval_s(now), HELD_INTERVAL_S)
        return self._spread(now, max(until, self.pace.held_until), interval_s, "breaker")


class Endpoints:
    """Every endpoint that this worker has met, by subscription."""

    def __init__(
        self,
        bounds: Bounds,
        observe: Observer,
        sample: Callable[[], float],
        record: Recorder | None = None,
    ) -> None:
        self._bounds = bounds
        self._observe = observe
        self._sample = sample
        self._record = Unrecorded() if record is None else record
        self._known: dict[str, Endpoint] = {}
        self._workers = 1
        self.on_change: Callable[[Endpoint], None] = lambda _endpoint: None  #: told of breakers and pauses
        self.begin: Callable[[Subscription], State | None] = lambda _subscription: None  #: what is known

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
                known.rebind(subscription)
                return known
            self._observe.series.breakers.labels(known.state).dec()
        started = self._known[subscription.id] = Endpoint(subscription, self._bounds, self._workers)
        begun = self.begin(subscription)
        if begun is not None:
            started.breaker = begun
        self._observe.series.breakers.labels(started.state).inc()
        if begun is None:
            self._record.endpoint(subscription, started.state, epoch=started.breaker.epoch)
        return started

    def admit(self, endpoint: Endpoint, now: float, *, fresh: bool, reserved: bool) -> Admission:
        """Ask *endpoint*; report that its breaker sends a probe."""
        before = endpoint.breaker
        admission = endpoint.admit(now, fresh=fresh, reserved=reserved)
        if endpoint.breaker is not before:
            self._report(endpoint, STATE_LABELS[type(before)])
        return admission

    def keep(self, subscription_ids: Collection[str]) -> None:
        """Forget the endpoints of subscriptions that are gone."""
        for gone in self._known.keys() - subscription_ids:
            self._observe.series.breakers.labels(self._known.pop(gone).state).dec()

    def learn(self, endpoint: Endpoint, outcome: Outcome, epoch: int, now: float) -> None:
        """Let *endpoint* learn from an attempt; report a change of its breaker."""
        before, held_until = endpoint.breaker, endpoint.pace.held_until
        endpoint.learn(outcome, epoch, now, self._sample())
        if endpoint.breaker is not before:
            self._report(endpoint, STATE_LABELS[type(before)])
        if endpoint.pace.held_until > held_until and self.met(endpoint.subscription) is endpoint:
            self.on_change(endpoint)

    def adopt(self, endpoint: Endpoint, state: State, now: float) -> None:
        """Take over what another worker knows of a breaker; it has written that down already."""
        before, endpoint.breaker = endpoint.breaker, state
        if isinstance(state, Closed) and not isinstance(before, Closed):
            endpoint.start_slowly(now)
        if endpoint.state != STATE_LABELS[type(before)]:
            self._observe.breaker_changed(endpoint.subscription, STATE_LABELS[type(before)], endpoint.state)

    def share(self, workers: int) -> None:
        """Divide what is a rate for all by the number of workers that live now, at least 1."""
        if workers != self._workers:
            self._workers = workers
            for endpoint in self._known.values():
                endpoint.share(workers)

    def hold(self, endpoint: Endpoint, until: float) -> None:
        """Take over a pause: nothing is sent before *until* (Unix seconds)."""
        endpoint.pace = clock.pause_until(endpoint.pace, until)

    def shown(self) -> dict[str, str]:
        """Breaker states by endpoint id, for operators."""
        return {endpoint_id(e.subscription.tenant, e.subscription.url): e.state for e in self._known.values()}

    def _report(self, endpoint: Endpoint, before: str) -> None:
        known = self._known.get(endpoint.subscription.id) is endpoint  # not gone, nor moved, meanwhile
        if known and endpoint.state != before:
            self._observe.breaker_changed(endpoint.subscription, before, endpoint.state)
            self._observe.breaker_decided(endpoint.subscription, endpoint.state, f"was {before}")
            self.on_change(endpoint)
            self._record.endpoint(endpoint.subscription, endpoint.state, epoch=endpoint.breaker.epoch)
