"""All endpoints of a worker: their changes are reported, shared, reset and moved with the clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from consumer.core.endpoint.admission import Hold, Send, Wait
from consumer.core.endpoint.breaker import Open
from consumer.core.model import Outcome, OutcomeKind
from consumer.core.retry.outcomes import Signal, breaker_signal
from consumer.core.retry.policy import POLICIES
from consumer.flow.endpoints.endpoint import Endpoint
from metrics.series import Series
from tests.support.builders.endpoints import BLOCKED, FAILED, OK, admit, open_breaker, subscription
from tests.support.fakes import START
from tests.support.worker import Worker


def known() -> Worker:
    """A worker whose random numbers are always 0."""
    worker = Worker()
    worker.samples = 0.0
    return worker


def at(worker: Worker, now: float) -> float:
    """Move both clocks to *now*, from where the wall clock was set to."""
    worker.clock.passed_s = now - START - worker.clock.step_s - asyncio.get_running_loop().time()
    return now


def gauge(series: Series) -> dict[str, float]:
    """Endpoints by the state of their breaker, as scraped."""
    read = series.registry.get_sample_value
    states = ("closed", "open", "probing")
    return {state: read("leveret_breakers", {"state": state}) or 0.0 for state in states}


def ask(worker: Worker, shop: Endpoint, now: float) -> Send | Wait | Hold:
    """Ask for one request, as the fan-out does."""
    return worker.endpoints.admit(shop, at(worker, now), fresh=False, reserved=False)


def fill(worker: Worker, shop: Endpoint, now: float, count: int) -> None:
    """Use the rate up, and have *count* requests held."""
    while isinstance(ask(worker, shop, now), Send):
        shop.slots.release()
    for _ in range(count - 1):
        assert isinstance(ask(worker, shop, now), Hold)


async def test_two_workers_share_a_rate() -> None:
    """Each sends half; one alone sends all."""
    worker = known()
    endpoints = worker.endpoints
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


async def test_kicked_or_cancelled_deliveries_leave_no_gap() -> None:
    """A hundred wait for their reservations under a rate, and are gone: the next goes at once."""
    worker = known()
    endpoints = worker.endpoints
    shop = endpoints.of(subscription(rate_per_s=10.0))
    fill(worker, shop, START, 100)
    for tenant, of in (("beta", None), (None, "sub_other")):
        endpoints.free(tenant, of)
        held = ask(worker, shop, START + 1)
        assert isinstance(held, Hold)
        assert held.defer.until > START + 9

    endpoints.free("acme", None)

    assert isinstance(ask(worker, shop, START + 1), Send)
    shop.slots.release()
    fill(worker, shop, START + 1, 100)
    endpoints.free(None, "sub_1")
    assert isinstance(ask(worker, shop, START + 2), Send)


async def test_a_clock_that_is_set_back_prolongs_nothing() -> None:
    """Fault 39: the clock goes back by an hour; a Retry-After, reservations and budgets keep their rest."""
    worker = known()
    endpoints, log = worker.endpoints, worker.log
    shop = endpoints.of(subscription(rate_per_s=1.0, retry=replace(POLICIES["default"], budget=1)))
    assert isinstance(ask(worker, shop, START), Send)
    busy = Outcome(kind=OutcomeKind.HTTP_4XX, status=429, duration_s=0.1, retry_after="60")
    endpoints.learn(shop, busy, shop.breaker.epoch, START)
    shop.slots.release()
    for _ in range(3):
        assert isinstance(ask(worker, shop, START), Hold)
    assert endpoints.postponed_s(shop, START) == 0.0
    endpoints.spend_retry(shop, START)
    assert endpoints.postponed_s(shop, START) == 60.0
    endpoints.spend_retry(shop, START)
    back = START - 3600
    worker.clock.step_s -= 3600

    held = ask(worker, shop, back)

    assert isinstance(held, Hold)
    assert back + 60 <= held.defer.until <= back + 65
    assert endpoints.postponed_s(shop, back) == 120.0
    assert isinstance(ask(worker, shop, back + 59), Hold)
    assert isinstance(ask(worker, shop, back + 70), Send)
    assert [line["by_s"] for line in log.events("clock.set_back")] == [3600.0]


async def test_workers_share_the_retry_budgets() -> None:
    """S0-10: two workers have half of each budget, of an endpoint and of all; one alone has it whole."""
    worker = Worker(retry_budget=60)
    endpoints = worker.endpoints
    shop = endpoints.of(subscription(retry=replace(POLICIES["default"], budget=4)))
    other = endpoints.of(replace(subscription(), id="sub_2", url="https://other.example/"))

    def immediate(endpoint: Endpoint) -> int:
        count = 0
        while endpoints.postponed_s(endpoint, START) == 0.0:
            endpoints.spend_retry(endpoint, START)
            count += 1
        return count

    endpoints.share(2)
    assert (immediate(shop), immediate(other)) == (2, 28)
    endpoints.share(1)
    assert (immediate(shop), immediate(other)) == (0, 0)
    shop.rebind(replace(shop.subscription, retry=replace(POLICIES["default"], budget=6)))
    endpoints.share(3)
    late = endpoints.of(replace(shop.subscription, id="sub_3", url="https://late.example/"))
    assert [late.postponed_s(START), shop.postponed_s(START)] == [0.0, 0.0]
    late.spend_retry(START)
    late.spend_retry(START)
    assert late.postponed_s(START) == 30.0


async def test_an_operator_resets() -> None:
    """S3-3: a reset closes the breaker, ends pauses and slow starts, keeps the rate, and is reported."""
    worker = known()
    endpoints, series, log = worker.endpoints, worker.series, worker.log
    one = subscription(rate_per_s=50.0)
    endpoints.reset(None, START)
    endpoints.reset(one, START)
    shop = endpoints.of(one)
    for _ in range(5):
        endpoints.learn(shop, FAILED._replace(retry_after="3600"), shop.breaker.epoch, START)
    assert isinstance(admit(shop, START + 100), Hold)

    endpoints.reset(one, at(worker, START + 100))

    assert isinstance(admit(shop, START + 100), Send)
    assert shop.pace.interval_s == pytest.approx(0.02)
    assert gauge(series) == {"closed": 1, "open": 0, "probing": 0}
    assert [line["after"] for line in log.events("breaker.changed")] == ["open", "closed"]


async def test_the_gauge_follows_every_breaker() -> None:
    """Closed, open, probing, open, probing, closed: one endpoint is counted once all the time."""
    worker = known()
    endpoints, series, log = worker.endpoints, worker.series, worker.log
    shop = endpoints.of(subscription())
    for _ in range(5):
        endpoints.admit(shop, START, fresh=False, reserved=False)
        endpoints.learn(shop, FAILED, shop.breaker.epoch, START)
        shop.slots.release()
    assert gauge(series) == {"closed": 0, "open": 1, "probing": 0}

    endpoints.admit(shop, at(worker, START + 30), fresh=False, reserved=False)
    assert gauge(series) == {"closed": 0, "open": 0, "probing": 1}
    endpoints.learn(shop, FAILED, shop.breaker.epoch, START + 30)
    shop.slots.release()
    assert gauge(series) == {"closed": 0, "open": 1, "probing": 0}
    endpoints.admit(shop, at(worker, START + 300), fresh=False, reserved=False)
    endpoints.learn(shop, OK, shop.breaker.epoch, START + 300)

    assert gauge(series) == {"closed": 1, "open": 0, "probing": 0}
    assert [line["after"] for line in log.events("breaker.changed")] == [
        *("open", "probing", "open", "probing", "closed"),
    ]


async def test_a_changed_url_starts_anew_and_is_counted_once() -> None:
    """The breaker of the old URL does not hold the new one."""
    worker = known()
    endpoints, series = worker.endpoints, worker.series
    shop = endpoints.of(subscription())
    open_breaker(shop, START)

    moved = endpoints.of(subscription(url="https://new.example/"))

    assert isinstance(admit(moved, START), Send)
    assert sum(gauge(series).values()) == 1


async def test_a_changed_setting_keeps_the_known_state() -> None:
    """Another concurrency or header is taken over; breaker and slots stay."""
    worker = known()
    endpoints = worker.endpoints
    shop = endpoints.of(subscription())
    open_breaker(shop, START)

    again = endpoints.of(subscription(concurrency=9, headers=(("x-v", "2"),)))

    assert again is shop
    assert isinstance(again.breaker, Open)
    assert again.subscription.concurrency == 9
    assert ("x-v", "2") in again.headers


def test_the_signals_used_here_have_the_assumed_meaning() -> None:
    """503 is a failure, 200 a sign of life, a blocked address neither."""
    assert [breaker_signal(each) for each in (FAILED, OK, BLOCKED)] == [
        *(Signal.FAILING, Signal.ALIVE, Signal.UNKNOWN),
    ]
