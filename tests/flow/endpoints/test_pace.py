"""One endpoint's pace: ``Retry-After``, pauses, a rate, and the reservations that they give out."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.core.endpoint.admission import HELD_INTERVAL_S, PAUSED_LOOK_S, Hold, Send
from consumer.core.model import Outcome, OutcomeKind
from consumer.flow.endpoints.endpoint import Endpoint
from tests.support.builders.endpoints import FAILED, OK, admit, answered, endpoint, subscription
from tests.support.fakes import START


def test_retry_after_holds_all_deliveries_of_the_endpoint() -> None:
    """The endpoint's pace moves: nothing goes before, reserved or not (fault 39)."""
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


def test_a_rate_spaces_requests() -> None:
    """S1-11: at most the rate and its burst in any second, and the held deliveries come back evenly."""
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


@dataclass
class Restarted:
    """Deliveries from before a restart come back to a worker that has never met the endpoint."""

    shop: Endpoint
    waiting: list[tuple[float, bool]]
    sent: list[float] = field(default_factory=list)
    looks: int = 0

    def run(self) -> None:
        """Let each ask at its time, until all were sent."""
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
    """For every backlog, however overdue, the rate holds and all are sent."""
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
    """SW-38: 429 without Retry-After pauses; answers to requests in flight count once; a success ends it."""
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


def test_deliveries_that_wait_for_retry_after_come_back_spread() -> None:
    """Fault 39: one 429 holds many; they come back as fast as the endpoint took requests before."""
    shop = endpoint(concurrency=50)
    assert isinstance(admit(shop, START), Send)
    answered(shop, Outcome(kind=OutcomeKind.HTTP_4XX, status=429, duration_s=0.1, retry_after="60"), START)

    holds = [admit(shop, START + 1) for _ in range(1000)]

    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert times[0] == START + 60
    assert [after - before for before, after in pairwise(times)] == pytest.approx([0.1 / 50] * 999, rel=0.01)


def test_a_pause_that_was_lifted_leaves_no_gap() -> None:
    """Held deliveries ask again after a minute; new ones need not wait for that."""
    shop = endpoint(rate_per_s=10.0, paused=True)
    held = admit(shop, START)
    assert isinstance(held, Hold)
    assert held.defer.until >= START + PAUSED_LOOK_S

    shop.rebind(subscription(rate_per_s=10.0))

    assert isinstance(admit(shop, START + 1), Send)


def test_deliveries_paused_by_hand_wait_and_go_on_after() -> None:
    """Nothing is sent and no attempt is spent; each asks again at its own reservation."""
    held = endpoint(paused=True)

    holds = [admit(held, START, fresh=True) for _ in range(100)]

    assert {hold.reason for hold in holds if isinstance(hold, Hold)} == {"paused"}
    times = [hold.defer.until for hold in holds if isinstance(hold, Hold)]
    assert times[0] >= START + PAUSED_LOOK_S
    assert min(later - earlier for earlier, later in pairwise(times)) >= HELD_INTERVAL_S * 0.99
    assert held.slots.in_flight == 0
    held.rebind(subscription())
    assert isinstance(admit(held, START + 1), Send)


def test_a_pause_recalls_a_request_that_waits_for_a_slot() -> None:
    """A request that was admitted before the pause and has no slot yet is not sent."""
    shop = endpoint()
    sent = admit(shop, START)
    assert isinstance(sent, Send)
    shop.rebind(subscription(paused=True))

    hold = shop.recall(sent.epoch, START + 1)

    assert hold is not None
    assert hold.reason == "paused"
