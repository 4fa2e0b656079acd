"""One endpoint's breaker, pace and slots: what may go now, what is held, and that none is held for ever."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from consumer.core.endpoint.breaker import BreakerPolicy, Closed, Open, State
from consumer.core.model import Outcome, OutcomeKind
from consumer.core.retry.outcomes import Signal, breaker_signal
from consumer.core.retry.policy import POLICIES
from consumer.flow.base.context import Bounds
from consumer.flow.endpoints.admission import Hold, Send, Wait
from consumer.flow.endpoints.endpoint import HELD_INTERVAL_S, PAUSED_LOOK_S, Endpoint
from consumer.flow.endpoints.endpoints import Endpoints
from consumer.flow.observe.observer import Observer
from metrics.series import Series
from tests.support.builders.endpoints import subscription
from tests.support.fakes import START, RecordingLog, run_virtually, settled

OK = Outcome(kind=OutcomeKind.OK, status=200, duration_s=0.05)
FAILED = Outcome(kind=OutcomeKind.HTTP_5XX, status=503, duration_s=0.05)
BLOCKED = Outcome(kind=OutcomeKind.BLOCKED, duration_s=0.0)


def endpoint(bounds: Bounds | None = None, **fields: Any) -> Endpoint:
    """An endpoint that nothing is known of yet."""
    return Endpoint(subscription(**fields), bounds or Bounds())


def admit(target: Endpoint, now: float, *, fresh: bool = False, reserved: bool = False) -> Send | Wait | Hold:
    """Ask for one request."""
    return target.admit(now, fresh=fresh, reserved=reserved)


def answered(target: Endpoint, outcome: Outcome, now: float, epoch: int | None = None) -> None:
    """End one request that was admitted."""
    target.learn(outcome, target.breaker.epoch if epoch is None else epoch, now, 0.0)
    target.release()


def open_breaker(target: Endpoint, now: float) -> None:
    """Fail until the breaker is open."""
    while isinstance(target.breaker, Closed):
        assert isinstance(admit(target, now), Send)
        answered(target, FAILED, now)


# breaker


def test_five_failures_open_and_one_probe_closes() -> None:
    """CLOSED, OPEN for 30 s, one probe, CLOSED again after its success (S3-1)."""
    shop = endpoint()
    open_breaker(shop, START)

    held = admit(shop, START + 29.9)
    probe = admit(shop, START + 30)
    behind = admit(shop, START + 30.1)

    assert isinstance(held, Hold)
    assert isinstance(probe, Send)
    assert isinstance(behind, Hold)
    assert shop.state == "probing"
    answered(shop, OK, START + 31, probe.epoch)
    assert shop.state == "closed"


def test_a_failed_probe_opens_again() -> None:
    """The next look is after a longer cooldown (S3-1)."""
    shop = endpoint()
    open_breaker(shop, START)
    probe = admit(shop, START + 30)
    assert isinstance(probe, Send)

    answered(shop, FAILED, START + 30, probe.epoch)

    assert isinstance(shop.breaker, Open)
    assert isinstance(admit(shop, START + 89.9), Hold)
    assert isinstance(admit(shop, START + 90), Send)


def test_what_is_held_comes_back_spread_after_the_cooldown() -> None:
    """Deferred to the end of the cooldown and later, each at its own moment: no stampede (fault 55)."""
    shop = endpoint()
    open_breaker(shop, START)

    holds = [admit(shop, START + 1) for _ in range(100)]

    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert len(times) == 100
    assert times[0] >= START + 30
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= HELD_INTERVAL_S * 0.99
    assert {hold.reason for hold in holds if isinstance(hold, Hold)} == {"breaker"}


def test_a_probe_waits_as_long_as_retry_after_said() -> None:
    """503 with ``Retry-After: 3600`` opens the breaker; no probe goes before (SW-40)."""
    shop = endpoint(concurrency=5)
    for _ in range(5):
        assert isinstance(admit(shop, START), Send)
    for _ in range(5):
        answered(shop, FAILED._replace(retry_after="3600"), START)
    assert isinstance(shop.breaker, Open)

    held = admit(shop, START + 31)

    assert isinstance(held, Hold)
    assert held.defer.until >= START + 3600
    assert isinstance(admit(shop, START + 3600), Send)


def test_a_probe_takes_a_slot_like_any_other() -> None:
    """While every slot hangs no further probe goes, however short its timeout: the bound holds."""
    shop = endpoint(concurrency=2, breaker=BreakerPolicy(failures=1, cooldown_s=0.01, probe_timeout_s=0.1))
    assert isinstance(admit(shop, START), Send)
    assert isinstance(admit(shop, START), Send)
    answered(shop, FAILED, START)

    probe, second = admit(shop, START + 1), admit(shop, START + 2)

    assert isinstance(probe, Send)
    assert isinstance(second, Hold)
    shop.release()
    assert isinstance(admit(shop, START + 3), Send)


def test_failures_zero_switches_the_breaker_off() -> None:
    """However many failures, requests go (outside contract)."""
    shop = endpoint(breaker=BreakerPolicy(failures=0))

    for n in range(100):
        assert isinstance(admit(shop, START + n), Send)
        answered(shop, FAILED, START + n)


def test_our_own_faults_tell_the_breaker_nothing() -> None:
    """A blocked address is no failure of the endpoint (S1-7)."""
    shop = endpoint()

    for _ in range(20):
        assert isinstance(admit(shop, START), Send)
        answered(shop, BLOCKED, START)

    assert shop.breaker == Closed()


# pace


def test_retry_after_holds_all_deliveries_of_the_endpoint() -> None:
    """The endpoint's clock moves: nothing goes before, reserved or not (fault 39)."""
    shop = endpoint()
    assert isinstance(admit(shop, START), Send)
    answered(shop, Outcome(kind=OutcomeKind.HTTP_4XX, status=429, duration_s=0.1, retry_after="120"), START)

    for reserved in (False, True):
        held = admit(shop, START + 119.9, reserved=reserved)
        assert isinstance(held, Hold)
        assert held.defer.until >= START + 120
    assert isinstance(admit(shop, START + 120, reserved=True), Send)


@pytest.mark.parametrize("value", ["0", "-5", "nan", "soon", ""])
def test_garbage_in_retry_after_holds_nothing(value: str) -> None:
    """Ignored (fault 39); a 429 with garbage waits as one without the header, with 0 not at all."""
    shop = endpoint()
    assert isinstance(admit(shop, START), Send)
    answered(shop, FAILED._replace(retry_after=value), START)
    assert isinstance(admit(shop, START), Send)

    answered(shop, Outcome(kind=OutcomeKind.HTTP_4XX, status=429, duration_s=0.1, retry_after=value), START)

    assert isinstance(admit(shop, START), Send if value == "0" else Hold)
    assert isinstance(admit(shop, START + 1), Send)


def test_after_an_outage_it_starts_slowly() -> None:
    """One request a second first, then faster with every success; what may not go gets its own moment."""
    shop = endpoint()
    open_breaker(shop, START)
    now = START + 30
    probe = admit(shop, now)
    assert isinstance(probe, Send)
    answered(shop, OK, now, probe.epoch)

    first, second, third = admit(shop, now), admit(shop, now), admit(shop, now)

    assert isinstance(first, Send)
    assert isinstance(second, Hold)
    assert isinstance(third, Hold)
    assert (second.reason, second.defer.until) == ("paced", now + 1)
    assert now + 1 < third.defer.until < now + 1.1
    assert shop.state == "closed"


def test_some_successes_bring_it_back_to_full_speed() -> None:
    """Seven successes, in about two seconds: then every request goes at once and none waits for its turn."""
    shop = endpoint()
    open_breaker(shop, START)
    now = START + 30
    probe = admit(shop, now)
    assert isinstance(probe, Send)
    answered(shop, OK, now, probe.epoch)
    sent = 0
    while shop.pace.slow_s:
        admission = admit(shop, now)
        if isinstance(admission, Hold):
            now = admission.defer.until
            admission = admit(shop, now, reserved=True)
        assert isinstance(admission, Send)
        answered(shop, OK, now, admission.epoch)
        sent += 1

    assert sent <= 8
    assert now - START - 30 <= 3
    assert all(isinstance(admit(shop, now + 1), Send) for _ in range(4))


def recovering(now: float, **fields: Any) -> Endpoint:
    """An endpoint whose probe was taken at *now*."""
    shop = endpoint(**fields)
    open_breaker(shop, now - 30)
    probe = admit(shop, now)
    assert isinstance(probe, Send)
    answered(shop, OK, now, probe.epoch)
    return shop


def test_a_slow_start_gives_out_no_moments_far_ahead() -> None:
    """A thousand are put off before the first success; none waits longer than the queue takes."""
    shop = recovering(START)
    first = admit(shop, START)
    assert isinstance(first, Send)

    holds = [admit(shop, START) for _ in range(1000)]

    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert len(times) == 1000
    assert times[0] == START + 1
    assert times[-1] <= START + 1 + 1000 * 0.05
    answered(shop, OK, START, first.epoch)
    assert isinstance(admit(shop, START + 0.5), Send), "what is fresh does not stand behind them"


def test_a_slow_start_holds_whoever_comes() -> None:
    """Reserved or not: between two requests of the slow start lies its interval."""
    shop = recovering(START, rate_per_s=100.0)
    assert isinstance(admit(shop, START, reserved=True), Send)

    for n in range(1, 100):
        assert isinstance(admit(shop, START + n / 100, reserved=n % 2 == 0), Hold)
    assert isinstance(admit(shop, START + 1, reserved=True), Send)


def test_probes_only_do_not_make_it_swing() -> None:
    """It takes the probe, fails the rest: two more requests, a longer cooldown, no ramp."""
    shop, now, requests, cooldowns = endpoint(), START, 0, []
    open_breaker(shop, now)
    for _ in range(4):
        state: State = shop.breaker
        assert isinstance(state, Open)
        cooldowns.append(state.until - now)
        now = state.until
        probe = admit(shop, now)
        assert isinstance(probe, Send)
        answered(shop, OK, now, probe.epoch)
        while isinstance(shop.breaker, Closed):
            admission = admit(shop, now)
            if isinstance(admission, Hold):
                now = admission.defer.until
                continue
            assert isinstance(admission, Send)
            answered(shop, FAILED, now, admission.epoch)
            requests += 1

    assert requests == 4 * 2
    assert cooldowns == [30.0, 60.0, 120.0, 240.0]


def test_a_rate_spaces_what_is_sent() -> None:
    """S1-11: at most the rate and its burst in any second, and what is put off comes back evenly."""
    shop = endpoint(rate_per_s=100.0, burst=10, concurrency=1000)

    admissions = [admit(shop, START) for _ in range(300)]

    assert sum(isinstance(each, Send) for each in admissions) == 10
    holds = [each for each in admissions if isinstance(each, Hold)]
    assert {(each.reason, each.reserved) for each in holds} == {("paced", True)}
    gaps = [after.defer.until - before.defer.until for before, after in pairwise(holds)]
    assert min(gaps) >= 0.0099
    assert holds[-1].defer.until <= START + 290 * 0.0101
    assert isinstance(admit(shop, START + 1), Hold), "what is fresh does not overtake those that wait"
    assert isinstance(admit(shop, holds[0].defer.until, reserved=True), Send)


def test_two_workers_share_a_rate() -> None:
    """Each sends half; one alone sends all."""
    endpoints, _, _ = known()
    shop = endpoints.of(subscription(rate_per_s=100.0, burst=1))

    endpoints.share(2)
    assert isinstance(admit(shop, START), Send)
    held = admit(shop, START)
    assert isinstance(held, Hold)
    assert held.defer.until == pytest.approx(START + 0.02)
    later = endpoints.of(subscription(id="sub_2", rate_per_s=100.0, burst=1))
    assert later.pace.interval_s == pytest.approx(0.02)
    endpoints.share(1)
    assert shop.pace.interval_s == pytest.approx(0.01)


@dataclass
class Restarted:
    """Deliveries of an earlier life come back to a worker that knows nothing of the endpoint."""

    shop: Endpoint
    waiting: list[tuple[float, bool]]
    sent: list[float] = field(default_factory=list)
    looks: int = 0

    def run(self) -> None:
        """Let each look when its time has come, until all were sent."""
        heapify(self.waiting)
        now = START
        while self.waiting:
            at, reserved = heappop(self.waiting)
            now = max(now, at)
            self.looks += 1
            admission = admit(self.shop, now, reserved=reserved)
            if isinstance(admission, Hold):
                heappush(self.waiting, (admission.defer.until, admission.reserved))
            else:
                answered(self.shop, OK, now)
                self.sent.append(now)


@settings(max_examples=30)
@given(st.integers(1, 2000), st.sampled_from([10.0, 100.0, 400.0]), st.floats(0, 1), st.floats(0, 30))
def test_a_restart_does_not_stampede(count: int, rate: float, share: float, away_s: float) -> None:
    """Whatever waits and however much of it is overdue, the rate holds and all are sent."""
    overdue = int(count * share)
    waiting = [(START, True)] * overdue
    waiting += [(START + n / rate, True) for n in range(count - overdue)]
    crowd = Restarted(endpoint(rate_per_s=rate, concurrency=1000), waiting)

    crowd.run()

    assert len(crowd.sent) == count
    for index, first in enumerate(crowd.sent):
        end = bisect_left(crowd.sent, first + 1)
        assert end - index <= rate * 1.2 + 2
    assert crowd.sent[-1] <= START + 3 * count / rate + 2
    assert crowd.looks <= 8 * count


def test_throttled_without_a_time_it_waits_a_second_then_two() -> None:
    """SW-38: 429 without Retry-After pauses the endpoint; what was under way counts once; success ends it."""
    shop = endpoint(concurrency=8)
    throttled = Outcome(kind=OutcomeKind.HTTP_4XX, status=429, duration_s=0.1)
    for _ in range(4):
        assert isinstance(admit(shop, START), Send)
    for _ in range(4):
        answered(shop, throttled, START + 0.1)
    held = admit(shop, START + 1)
    assert isinstance(held, Hold)
    assert held.defer.until == pytest.approx(START + 1.1)
    assert isinstance(admit(shop, START + 1.2), Send)

    answered(shop, throttled, START + 1.3)

    assert isinstance(admit(shop, START + 3.2), Hold)
    assert isinstance(admit(shop, START + 3.4), Send)
    answered(shop, OK, START + 3.5)
    assert isinstance(admit(shop, START + 3.5), Send)
    answered(shop, throttled, START + 3.6)
    assert isinstance(admit(shop, START + 4.7), Send), "the count began anew"


def test_a_time_that_is_over_is_believed_once() -> None:
    """Fault 39, SW-38: 429 with ``Retry-After: 0``, or with the date of a clock that is behind.

    Sent again at once; then it waits like one without a time, instead of spending every attempt.
    """
    shop = endpoint()
    over = Outcome(kind=OutcomeKind.HTTP_4XX, status=429, duration_s=0.0, retry_after="0")
    assert isinstance(admit(shop, START), Send)
    answered(shop, over, START)
    assert isinstance(admit(shop, START), Send)

    answered(shop, over, START)

    assert isinstance(admit(shop, START + 0.9), Hold)
    assert isinstance(admit(shop, START + 1), Send)
    answered(shop, over, START + 1)
    assert isinstance(admit(shop, START + 2.9), Hold)
    assert isinstance(admit(shop, START + 3), Send)


@pytest.mark.parametrize("status", [502, 504])
def test_an_overloaded_gateway_is_paused_at_the_second_failure(status: int) -> None:
    """SW-39, fault 40: one 502 among good answers holds nothing; two in a row hold for a second."""
    shop = endpoint()
    overloaded = Outcome(kind=OutcomeKind.HTTP_5XX, status=status, duration_s=0.0)
    assert isinstance(admit(shop, START), Send)
    answered(shop, overloaded, START)
    assert isinstance(admit(shop, START), Send)

    answered(shop, overloaded, START)

    assert isinstance(admit(shop, START + 0.9), Hold)
    assert isinstance(admit(shop, START + 1), Send)


def test_what_waits_for_retry_after_comes_back_spread() -> None:
    """Fault 39: many are put off by one 429; they come back as fast as the endpoint took requests before."""
    shop = endpoint(concurrency=50)
    assert isinstance(admit(shop, START), Send)
    answered(shop, Outcome(kind=OutcomeKind.HTTP_4XX, status=429, duration_s=0.1, retry_after="60"), START)

    holds = [admit(shop, START + 1) for _ in range(1000)]

    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert times[0] == START + 60
    assert [after - before for before, after in pairwise(times)] == pytest.approx([0.1 / 50] * 999, rel=0.01)


def test_a_waiter_is_looked_at_again_after_an_outage() -> None:
    """It was admitted before the breaker opened; after it closed it keeps to the slow start too."""
    shop = endpoint(concurrency=1)
    before = shop.breaker.epoch
    open_breaker(shop, START - 30)
    probe = admit(shop, START)
    assert isinstance(probe, Send)
    answered(shop, OK, START, probe.epoch)
    assert isinstance(admit(shop, START), Send)

    assert isinstance(shop.recall(before, START), Hold)
    assert shop.recall(before, START + 1) is None


def test_what_another_worker_knows_is_taken_over() -> None:
    """An adopted opening holds for its cooldown, an adopted closing starts slowly."""
    shop = endpoint()
    shop.adopt(Open(START + 20, epoch=7), START)
    assert isinstance(admit(shop, START + 19), Hold)

    shop.adopt(Closed(epoch=8), START + 19)

    assert isinstance(admit(shop, START + 19), Send)
    answered(shop, OK, START + 19)
    assert isinstance(admit(shop, START + 19.1), Hold)
    now, sent = START + 19.5, 0
    while shop.pace.slow_s:
        assert isinstance(admit(shop, now), Send)
        answered(shop, OK, now)
        now, sent = now + 1, sent + 1
    assert sent == 6


def test_workers_share_a_slow_start() -> None:
    """Four workers that start slowly send one request a second together."""
    shop = endpoint()
    shop.share(4)
    shop.adopt(Open(START, epoch=1), START)
    shop.adopt(Closed(epoch=2), START, sample=0.5)

    assert isinstance(admit(shop, START + 1.9), Hold), "not all of them at once, when they hear of it"
    assert isinstance(admit(shop, START + 2), Send)
    assert isinstance(admit(shop, START + 5.9), Hold)
    assert isinstance(admit(shop, START + 6), Send)


def ask(endpoints: Endpoints, shop: Endpoint, now: float) -> Send | Wait | Hold:
    """Ask for one request, as the fan-out does."""
    return endpoints.admit(shop, now, fresh=False, reserved=False)


def fill(endpoints: Endpoints, shop: Endpoint, now: float, count: int) -> None:
    """Use the rate up, and put *count* off."""
    while isinstance(ask(endpoints, shop, now), Send):
        shop.release()
    for _ in range(count - 1):
        assert isinstance(ask(endpoints, shop, now), Hold)


def test_what_was_kicked_or_called_off_leaves_no_gap() -> None:
    """A hundred wait for their turns under a rate, and are gone: the next goes at once."""
    endpoints, _, _ = known()
    shop = endpoints.of(subscription(rate_per_s=10.0))
    fill(endpoints, shop, START, 100)
    for tenant, of in (("beta", None), (None, "sub_other")):
        endpoints.free(tenant, of)
        held = ask(endpoints, shop, START + 1)
        assert isinstance(held, Hold)
        assert held.defer.until > START + 9

    endpoints.free("acme", None)

    assert isinstance(ask(endpoints, shop, START + 1), Send)
    shop.release()
    fill(endpoints, shop, START + 1, 100)
    endpoints.free(None, "sub_1")
    assert isinstance(ask(endpoints, shop, START + 2), Send)


def test_a_pause_that_was_lifted_leaves_no_gap() -> None:
    """What was put off looks again after a minute; what is new need not wait for that."""
    shop = endpoint(rate_per_s=10.0, paused=True)
    held = admit(shop, START)
    assert isinstance(held, Hold)
    assert held.defer.until >= START + PAUSED_LOOK_S

    shop.rebind(subscription(rate_per_s=10.0))

    assert isinstance(admit(shop, START + 1), Send)


def test_a_clock_that_is_set_back_prolongs_nothing() -> None:
    """Fault 39: the wall clock goes back by an hour; a Retry-After, turns and budgets keep what was left."""
    endpoints, _, log = known()
    shop = endpoints.of(subscription(rate_per_s=1.0, retry=replace(POLICIES["default"], budget=1)))
    assert isinstance(ask(endpoints, shop, START), Send)
    busy = Outcome(kind=OutcomeKind.HTTP_4XX, status=429, duration_s=0.1, retry_after="60")
    endpoints.learn(shop, busy, shop.breaker.epoch, START)
    shop.release()
    for _ in range(3):
        assert isinstance(ask(endpoints, shop, START), Hold)
    assert endpoints.postponed_s(shop, START) == 0.0
    endpoints.spend_retry(shop, START)
    assert endpoints.postponed_s(shop, START) == 60.0
    endpoints.spend_retry(shop, START)
    back = START - 3600

    held = ask(endpoints, shop, back)

    assert isinstance(held, Hold)
    assert back + 60 <= held.defer.until <= back + 65
    assert endpoints.postponed_s(shop, back) == 120.0
    assert isinstance(ask(endpoints, shop, back + 59), Hold)
    assert isinstance(ask(endpoints, shop, back + 70), Send)
    assert [line["by_s"] for line in log.events("clock.set_back")] == [3600.0]


def test_an_operator_resets() -> None:
    """S3-3: a reset closes the breaker, ends pauses and slow starts, keeps the rate, and is reported."""
    endpoints, series, log = known()
    one = subscription(rate_per_s=50.0)
    endpoints.reset(None, START)
    endpoints.reset(one, START)
    shop = endpoints.of(one)
    for _ in range(5):
        endpoints.learn(shop, FAILED._replace(retry_after="3600"), shop.breaker.epoch, START)
    assert isinstance(admit(shop, START + 100), Hold)

    endpoints.reset(one, START + 100)

    assert isinstance(admit(shop, START + 100), Send)
    assert shop.pace.interval_s == pytest.approx(0.02)
    assert gauge(series) == {"closed": 1, "open": 0, "probing": 0}
    assert [line["after"] for line in log.events("breaker.changed")] == ["open", "closed"]


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.sampled_from([OK, FAILED, BLOCKED]), st.integers(0, 400), st.booleans()), max_size=60
    )
)
def test_no_history_strands_an_endpoint(history: list[tuple[Outcome, int, bool]]) -> None:
    """Whatever happened, once it answers again it is at full speed after a bounded number of successes."""
    shop, now = endpoint(concurrency=1), START
    for outcome, tenths, lost in history:
        now += tenths / 10
        admission = admit(shop, now, fresh=False)
        if isinstance(admission, Send):
            if lost:
                shop.release()  # cut off: nothing was learned
            else:
                answered(shop, outcome, now, admission.epoch)

    successes = looks = 0
    while not (isinstance(shop.breaker, Closed) and not shop.pace.slow_s):
        admission = admit(shop, now)
        looks += 1
        assert looks < 60, shop.breaker
        if isinstance(admission, Hold):
            assert admission.defer.until > now - 1e-6
            now = max(admission.defer.until, now + 0.01)
            admission = admit(shop, now, reserved=admission.reserved)
        if isinstance(admission, Send):
            answered(shop, OK, now, admission.epoch)
            successes += 1

    assert successes <= 9
    assert isinstance(admit(shop, now + 1), Send)


@dataclass
class Crowd:
    """Deliveries that wait for one endpoint, each coming back when its clock said."""

    shop: Endpoint
    now: float
    waiting: list[tuple[float, int, bool]] = field(default_factory=list)
    deferrals: dict[int, int] = field(default_factory=dict)
    delivered: int = 0

    def look(self) -> None:
        """Let the next one look again."""
        self.waiting.sort()
        at, number, reserved = self.waiting.pop(0)
        self.now = max(self.now, at)
        admission = admit(self.shop, self.now, reserved=reserved)
        if isinstance(admission, Hold):
            self.deferrals[number] = self.deferrals.get(number, 0) + 1
            self.waiting.append((admission.defer.until, number, admission.reserved))
            return
        assert isinstance(admission, Send)
        answered(self.shop, OK, self.now, admission.epoch)
        self.delivered += 1


@settings(max_examples=40)
@given(st.integers(1, 300), st.integers(0, 60))
def test_a_reserved_delivery_is_not_deferred_for_ever(size: int, spread: int) -> None:
    """After an outage a crowd comes back: each is delivered after a few looks, in bounded time."""
    shop = endpoint()
    open_breaker(shop, START)
    crowd = Crowd(shop, START, [(START + n * spread / 100, n, False) for n in range(size)])

    while crowd.waiting:
        crowd.look()

    assert crowd.delivered == size
    assert max(crowd.deferrals.values(), default=0) <= 10, "the outage, and once for a step of the slow start"
    assert crowd.now <= START + 30 + size * 1.1 + spread


# slow and saturated


def test_a_slow_endpoint_is_not_sent_from_the_event() -> None:
    """More than a tenth of the last 20 requests took a second: held, but not as a delivery message."""
    shop = endpoint()
    for duration_s in [0.1] * 17 + [1.0] * 3:
        shop.latency.learn(duration_s, taken=True)

    fresh, message = admit(shop, START, fresh=True), admit(shop, START)

    assert isinstance(fresh, Hold)
    assert (fresh.reason, fresh.defer.until) == ("slow", START)
    assert isinstance(message, Send)


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0.1, 0.99, 1.0, 15.0]), max_size=70))
def test_slow_is_what_the_last_twenty_say(durations: Sequence[float]) -> None:
    """The running count is the p90 over a window of 20: it recovers."""
    shop = endpoint()
    window: deque[float] = deque(maxlen=20)
    for duration_s in durations:
        shop.latency.learn(duration_s, taken=True)
        window.append(duration_s)

        assert shop.is_slow == (sum(each >= 1.0 for each in window) * 10 > len(window))


def test_an_endpoint_that_has_not_answered_yet_is_as_slow_as_its_silence() -> None:
    """Fault 53: requests that hang tell of the latency before the first of them has ended."""
    silent = endpoint()
    assert [type(admit(silent, START, fresh=True)) for _ in range(4)] == [Send] * 4

    early = admit(silent, START + 0.1)
    late = admit(silent, START + 2.0)
    fresh = admit(silent, START + 2.0, fresh=True)

    assert isinstance(early, Wait), "a tenth of a second is nothing yet"
    assert isinstance(late, Hold)
    assert late.defer.until == pytest.approx(START + 2.0 + 2.0 / 4), "the next slot of four, at 2 s a request"
    assert isinstance(fresh, Hold)
    assert fresh.reason == "slow"

    silent.learn(OK, 0, START + 2.0, 0.5)

    assert silent.is_slow is False
    silent.release()
    assert isinstance(admit(silent, START + 2.1, fresh=True), Send), "an answer ends the silence"


def test_idleness_is_no_silence() -> None:
    """An endpoint that had nothing to do is not slow."""
    idle = endpoint()
    admit(idle, START)
    idle.learn(OK, 0, START + 0.05, 0.5)
    idle.release()

    assert isinstance(admit(idle, START + 3600.0, fresh=True), Send)
    assert isinstance(admit(idle, START + 3600.1, fresh=True), Send)


def test_a_saturated_endpoint_gives_out_moments_at_its_own_pace() -> None:
    """All slots taken and no slot soon: spaced by latency / concurrency, never in one moment."""
    shop = endpoint(concurrency=2)
    for _ in range(50):
        shop.latency.learn(0.8, taken=True)
    assert isinstance(admit(shop, START), Send)
    assert isinstance(admit(shop, START), Send)

    holds = [admit(shop, START) for _ in range(5)]

    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert len(times) == 5
    assert times == pytest.approx([times[0] + n * 0.4 for n in range(5)], abs=0.01)
    assert times[0] >= START + 0.39


# slots


Deed = tuple[str, int]


@settings(max_examples=120)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["take", "end", "cancel", "resize"]), st.integers(0, 9)), max_size=60),
)
def test_slots_are_never_exceeded_with_waiters_and_cancellations(concurrency: int, deeds: list[Deed]) -> None:
    """In any order of requests, ends and cancelled waits: no more than the slots, and none is lost."""

    async def main() -> None:
        shop = endpoint(Bounds(quick_wait_s=1e9), concurrency=concurrency)
        holders: list[asyncio.Event] = []
        tasks: list[asyncio.Task[None]] = []
        holding, limit = 0, concurrency

        async def one(wait: bool) -> None:
            nonlocal holding
            if wait and not await shop.slot():
                return
            holding += 1
            assert holding <= limit
            leave = asyncio.Event()
            holders.append(leave)
            try:
                await leave.wait()
            finally:
                holding -= 1
                shop.release()

        for deed, pick in deeds:
            if deed == "take":
                admission = admit(shop, START)
                assert not isinstance(admission, Hold)
                tasks.append(asyncio.create_task(one(isinstance(admission, Wait))))
            elif deed == "end" and holders:
                holders.pop(pick % len(holders)).set()
                for _ in range(pick % 4):  # what comes next may meet a slot on its way
                    await asyncio.sleep(0)
                continue
            elif deed == "cancel" and tasks:
                tasks.pop(pick % len(tasks)).cancel()
            elif deed == "resize":
                await settled()
                limit = max(pick % 4 + 1, holding)
                shop.rebind(replace(shop.subscription, concurrency=limit))
            await settled()
        await settled()  # a slot may be on its way to a waiter
        while holding:
            for leave in holders:
                leave.set()
            await settled()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert shop.in_flight == 0
        assert isinstance(admit(shop, START), Send)

    run_virtually(main)


def test_a_slot_on_its_way_to_a_cancelled_waiter_is_not_lost() -> None:
    """Given and cancelled in the same moment: the slot goes on to the next."""

    async def main() -> None:
        shop = endpoint(concurrency=1)
        assert isinstance(admit(shop, START), Send)
        first, second = asyncio.create_task(shop.slot()), asyncio.create_task(shop.slot())
        await settled()

        shop.release()
        first.cancel()

        assert await second
        assert first.cancelled()
        shop.release()
        assert shop.in_flight == 0

    run_virtually(main)


def test_those_in_line_are_served_in_order() -> None:
    """First come, first served."""

    async def main() -> None:
        shop = endpoint(concurrency=1)
        assert isinstance(admit(shop, START), Send)
        served: list[int] = []

        async def one(number: int) -> None:
            assert await shop.slot()
            served.append(number)
            shop.release()

        tasks = [asyncio.create_task(one(n)) for n in range(5)]
        await settled()
        shop.release()
        await asyncio.gather(*tasks)
        assert served == [0, 1, 2, 3, 4]

    run_virtually(main)


def test_nobody_stands_in_line_for_a_slot_that_hangs() -> None:
    """The wait for a slot is bounded; after it there is no slot taken and none lost."""

    async def main() -> None:
        shop = endpoint(concurrency=1)
        assert isinstance(admit(shop, START), Send)
        loop = asyncio.get_running_loop()

        assert not await shop.slot()

        assert loop.time() < 15
        assert shop.in_flight == 1
        shop.release()
        assert shop.in_flight == 0

    run_virtually(main)


# all endpoints


def known() -> tuple[Endpoints, Series, RecordingLog]:
    """Endpoints, with what they report."""
    series, log = Series(CollectorRegistry()), RecordingLog()
    return Endpoints(Bounds(), Observer(series, log), lambda: 0.0), series, log


def gauge(series: Series) -> dict[str, float]:
    """Endpoints by the state of their breaker, as scraped."""
    read = series.registry.get_sample_value
    states = ("closed", "open", "probing")
    return {state: read("leveret_breakers", {"state": state}) or 0.0 for state in states}


def test_the_gauge_follows_every_breaker() -> None:
    """Closed, open, probing, open, probing, closed: one endpoint is counted once all the time."""
    endpoints, series, log = known()
    shop = endpoints.of(subscription())
    for _ in range(5):
        endpoints.admit(shop, START, fresh=False, reserved=False)
        endpoints.learn(shop, FAILED, shop.breaker.epoch, START)
        shop.release()
    assert gauge(series) == {"closed": 0, "open": 1, "probing": 0}

    endpoints.admit(shop, START + 30, fresh=False, reserved=False)
    assert gauge(series) == {"closed": 0, "open": 0, "probing": 1}
    endpoints.learn(shop, FAILED, shop.breaker.epoch, START + 30)
    shop.release()
    assert gauge(series) == {"closed": 0, "open": 1, "probing": 0}
    endpoints.admit(shop, START + 300, fresh=False, reserved=False)
    endpoints.learn(shop, OK, shop.breaker.epoch, START + 300)

    assert gauge(series) == {"closed": 1, "open": 0, "probing": 0}
    assert [line["after"] for line in log.events("breaker.changed")] == [
        *("open", "probing", "open", "probing", "closed"),
    ]


def test_a_changed_url_starts_anew_and_is_counted_once() -> None:
    """What was known of the old URL does not hold the new one."""
    endpoints, series, _ = known()
    shop = endpoints.of(subscription())
    open_breaker(shop, START)

    moved = endpoints.of(subscription(url="https://new.example/"))

    assert isinstance(admit(moved, START), Send)
    assert sum(gauge(series).values()) == 1


def test_a_changed_setting_keeps_what_is_known() -> None:
    """Another concurrency or header is taken over; breaker and slots stay."""
    endpoints, _, _ = known()
    shop = endpoints.of(subscription())
    open_breaker(shop, START)

    again = endpoints.of(subscription(concurrency=9, headers=(("x-v", "2"),)))

    assert again is shop
    assert isinstance(again.breaker, Open)
    assert again.subscription.concurrency == 9
    assert ("x-v", "2") in again.headers


def test_the_signals_used_here_are_what_they_are_taken_for() -> None:
    """503 fails, 200 lives, a blocked address says nothing."""
    assert [breaker_signal(each) for each in (FAILED, OK, BLOCKED)] == [
        *(Signal.FAILING, Signal.ALIVE, Signal.UNKNOWN),
    ]


def test_what_is_paused_by_hand_waits_and_goes_on_after() -> None:
    """Nothing is sent and no attempt is spent; each looks again at a moment of its own."""
    held = endpoint(paused=True)

    holds = [admit(held, START, fresh=True) for _ in range(100)]

    assert {hold.reason for hold in holds if isinstance(hold, Hold)} == {"paused"}
    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert times[0] >= START + PAUSED_LOOK_S
    assert min(later - earlier for earlier, later in pairwise(times)) >= HELD_INTERVAL_S * 0.99
    assert held.in_flight == 0
    held.rebind(subscription())
    assert isinstance(admit(held, START + 1), Send)


def test_a_pause_calls_off_what_waits_for_a_slot() -> None:
    """It was admitted before the pause and has no slot yet: it is not sent."""
    shop = endpoint()
    sent = admit(shop, START)
    assert isinstance(sent, Send)
    shop.rebind(subscription(paused=True))

    hold = shop.recall(sent.epoch, START + 1)

    assert hold is not None
    assert hold.reason == "paused"
