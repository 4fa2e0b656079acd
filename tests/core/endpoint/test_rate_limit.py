"""One rate limiter for endpoints, workers and budgets: no second has more, and the rate is reached."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.rate_limit import per_period, per_second


@given(
    st.floats(0.1, 500),
    st.one_of(st.none(), st.integers(1, 50)),
    st.lists(st.floats(0, 2), min_size=1, max_size=200),
)
def test_a_rate_bounds_the_requests_of_any_second(
    per_s: float, burst: int | None, steps: list[float]
) -> None:
    """S1-11: whenever requests ask, no second has more than the rate and its burst."""
    limit, now, began = per_second(per_s, burst), 1000.0, []
    for step in steps:
        now += step / per_s
        if now >= limit.opens_at(now):
            limit = limit.sent(now)
            began.append(now)

    ahead = burst if burst is not None else max(2, math.ceil(per_s * 0.1) + 1)
    for first in began:
        within = sum(first <= at < first + 1 for at in began)
        assert within <= per_s + ahead + 1e-6 * per_s


def test_a_rate_is_reached_and_kept() -> None:
    """S1-11: asked all the time, it lets its burst go at once and then its rate."""
    limit, began = per_second(100.0, burst=5), []
    for tick in range(4000):
        now = 1000 + tick / 1000
        if now >= limit.opens_at(now):
            limit = limit.sent(now)
            began.append(now)

    assert began[4] <= 1000.005
    assert len(began) == pytest.approx(4 * 100 + 5, abs=2)


def test_a_hundred_jobs_in_sixty_seconds() -> None:
    """S1-11: 100 jobs per 60 s, asked all the time for 10 minutes: no 60 s have more than 100."""
    limit, began = per_second(100 / 60, burst=1), []
    for tick in range(6000):
        now = 1000 + tick / 10
        if now >= limit.opens_at(now):
            limit = limit.sent(now)
            began.append(now)

    assert len(began) == pytest.approx(10 * 100, abs=1)
    assert max(sum(first <= at < first + 60 for at in began) for first in began) <= 100


@pytest.mark.parametrize("workers", [1, 2, 4, 7])
def test_workers_share_a_rate(workers: int) -> None:
    """The shares of all live workers add up to the configured rate."""
    share = per_second(100.0, burst=28, workers=workers)

    assert workers / share.interval_s == pytest.approx(100.0)
    assert workers * (share.slack_s / share.interval_s + 1) <= 28 + 1e-9


@given(st.floats(0.01, 500), st.one_of(st.none(), st.integers(1, 50)), st.lists(st.floats(0, 3), max_size=50))
def test_the_room_is_what_goes_at_once(per_s: float, burst: int | None, steps: list[float]) -> None:
    """S1-11: as many as there is room for start now, and not one more."""
    limit, now = per_second(per_s, burst), 1000.0
    for step in steps:
        now += step / per_s
        for _ in range(limit.room(now)):
            assert limit.opens_at(now) <= now + 1e-6 * (1 + 1 / per_s)
            limit = limit.sent(now)
        assert limit.room(now) == 0
        assert limit.opens_at(now) > now


@given(st.integers(1, 50), st.floats(1, 100), st.lists(st.floats(0, 3), max_size=100))
def test_a_quota_postpones_the_excess_and_drops_nothing(
    count: int, period_s: float, steps: list[float]
) -> None:
    """S0-10: whenever retries ask, each gets a time, and no period has more than twice the quota."""
    limit, now, begins = per_period(count, period_s), 1000.0, list[float]()
    for step in steps:
        now += step * period_s / count
        assert limit.wait_s(now) >= 0.0
        begins.append(now + limit.wait_s(now))
        limit = limit.reserved(now)

    assert begins == pytest.approx(sorted(begins))
    for first in begins:
        assert sum(first <= at < first + period_s - 0.001 for at in begins) <= 2 * count


@given(st.integers(1, 60), st.integers(1, 8), st.floats(1, 100))
def test_workers_share_a_quota(count: int, workers: int, period_s: float) -> None:
    """S0-10: together they plan no more in a period than one worker does, rounded up to one for each."""

    def planned(shared_by: int) -> int:
        limit, begins = per_period(count, period_s, shared_by), list[float]()
        for _ in range(3 * count):
            begins.append(limit.wait_s(1000.0))
            limit = limit.reserved(1000.0)
        return sum(wait_s < period_s - 0.001 for wait_s in begins)

    assert workers * planned(workers) <= planned(1) + 2 * workers


@given(st.integers(1, 20), st.integers(0, 40), st.integers(1, 8), st.integers(1, 8))
def test_a_quota_that_is_shared_anew_forgets_no_reservation(
    count: int, reserved: int, before: int, after: int
) -> None:
    """S0-10: workers that come and go give no worker its burst again."""
    limit = per_period(count, 60.0, before)
    for _ in range(reserved):
        limit = limit.reserved(1000.0)

    again = limit.reshaped(per_period(count, 60.0, after)).reshaped(per_period(count, 60.0, before))

    assert again == limit


def test_a_whole_quota_goes_at_once() -> None:
    """S0-10: three a minute: three now, then one each 20 s."""
    limit, waits = per_period(3, 60.0), []
    for _ in range(5):
        waits.append(limit.wait_s(1000.0))
        limit = limit.reserved(1000.0)

    assert waits == pytest.approx([0.0, 0.0, 0.0, 20.0, 40.0])


@given(st.floats(-4000, 4000), st.integers(0, 10))
def test_a_clock_that_is_set_changes_no_rest(by_s: float, count: int) -> None:
    """Fault 82: the rest of a wait is the same after the step."""
    limit = per_second(10.0, burst=3)
    for _ in range(count):
        limit = limit.sent(1e9)
    rest_s = limit.opens_at(1e9) - 1e9

    moved = limit.set_back(by_s)

    assert max(moved.opens_at(1e9 - by_s) - (1e9 - by_s), 0.0) == pytest.approx(max(rest_s, 0.0), abs=1e-5)
