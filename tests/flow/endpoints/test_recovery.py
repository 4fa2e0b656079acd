"""One endpoint after an outage: a slow start, no stampede, and nothing is held for ever."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.endpoint.admission import Hold, Send
from consumer.core.endpoint.breaker import Closed, Open, State
from consumer.core.model import Outcome
from consumer.flow.endpoints.endpoint import Endpoint
from tests.support.builders.endpoints import (
    BLOCKED,
    FAILED,
    OK,
    admit,
    answered,
    endpoint,
    open_breaker,
    recovering,
)
from tests.support.fakes import START


def test_after_an_outage_it_starts_slowly() -> None:
    """One request a second first, then faster with every success; each other gets its own reservation."""
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
    """Seven successes, in about two seconds: then every request goes at once and none is held."""
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


def test_a_slow_start_gives_out_no_reservations_far_ahead() -> None:
    """A thousand are held before the first success; none waits longer than the queue takes."""
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


def test_a_slow_start_holds_every_delivery() -> None:
    """Reserved or not: two requests of the slow start are an interval apart."""
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


def test_a_waiter_is_recalled_after_an_outage() -> None:
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


def test_knowledge_of_another_worker_is_taken_over() -> None:
    """An adopted opening holds for its cooldown, an adopted closing starts slowly."""
    shop = endpoint()
    shop.admission.adopt(Open(START + 20, epoch=7), START)
    assert isinstance(admit(shop, START + 19), Hold)

    shop.admission.adopt(Closed(epoch=8), START + 19)

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
    shop.admission.share(4)
    shop.admission.adopt(Open(START, epoch=1), START)
    shop.admission.adopt(Closed(epoch=2), START, sample=0.5)

    assert isinstance(admit(shop, START + 1.9), Hold), "not all of them at once, when they hear of it"
    assert isinstance(admit(shop, START + 2), Send)
    assert isinstance(admit(shop, START + 5.9), Hold)
    assert isinstance(admit(shop, START + 6), Send)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.sampled_from([OK, FAILED, BLOCKED]), st.integers(0, 400), st.booleans()), max_size=60
    )
)
def test_no_history_strands_an_endpoint(history: list[tuple[Outcome, int, bool]]) -> None:
    """After every history, a healthy endpoint is at full speed after a bounded number of successes."""
    shop, now = endpoint(concurrency=1), START
    for outcome, tenths, lost in history:
        now += tenths / 10
        admission = admit(shop, now, fresh=False)
        if isinstance(admission, Send):
            if lost:
                shop.slots.release()  # cut off: nothing was learned
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
    """Deliveries that wait for one endpoint, each coming back at its reservation."""

    shop: Endpoint
    now: float
    waiting: list[tuple[float, int, bool]] = field(default_factory=list)
    deferrals: dict[int, int] = field(default_factory=dict)
    delivered: int = 0

    def look(self) -> None:
        """Let the next one ask again."""
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
    """After an outage many deliveries come back: each is sent after a few deferrals, in bounded time."""
    shop = endpoint()
    open_breaker(shop, START)
    crowd = Crowd(shop, START, [(START + n * spread / 100, n, False) for n in range(size)])

    while crowd.waiting:
        crowd.look()

    assert crowd.delivered == size
    assert max(crowd.deferrals.values(), default=0) <= 10, "the outage, and once for a step of the slow start"
    assert crowd.now <= START + 30 + size * 1.1 + spread
