"""One clock per endpoint: what is sent keeps its distance, pauses hold, a slow start ends."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.pace import (
    AHEAD_S,
    SLOW_START_S,
    Pace,
    opens_at,
    pause_until,
    room,
    saturation_interval_s,
    sent,
    slow_down,
    slow_start,
    speed_up,
    spread,
    spread_within,
    throttle_s,
    with_rate,
)

times = st.floats(0, 2e9)
intervals = st.floats(0, 3600)


def rate(per_s: float, burst: int | None = None, workers: int = 1) -> Pace:
    """Return the clock of an endpoint with a configured rate."""
    return with_rate(Pace(), per_s, burst, workers)


@given(
    st.floats(0.1, 500),
    st.one_of(st.none(), st.integers(1, 50)),
    st.lists(st.floats(0, 2), min_size=1, max_size=200),
)
def test_a_rate_bounds_what_is_sent_in_any_second(
    per_s: float, burst: int | None, steps: list[float]
) -> None:
    """S1-11: whenever requests ask, no second has more than the rate and its burst."""
    clock, now, began = rate(per_s, burst), 1000.0, []
    for step in steps:
        now += step / per_s
        if now >= opens_at(clock, now):
            clock = sent(clock, now)
            began.append(now)

    ahead = burst if burst is not None else max(2, math.ceil(per_s * 0.1) + 1)
    for first in began:
        within = sum(first <= at < first + 1 for at in began)
        assert within <= per_s + ahead + 1e-6 * per_s


def test_a_rate_is_reached_and_kept() -> None:
    """S1-11: asked all the time, an endpoint gets its burst at once and then its rate."""
    clock, began = rate(100.0, burst=5), []
    for tick in range(4000):
        now = 1000 + tick / 1000
        if now >= opens_at(clock, now):
            clock = sent(clock, now)
            began.append(now)

    assert began[4] <= 1000.005
    assert len(began) == pytest.approx(4 * 100 + 5, abs=2)


@pytest.mark.parametrize("workers", [1, 2, 4, 7])
def test_workers_share_a_rate(workers: int) -> None:
    """The shares of all live workers add up to the configured rate."""
    own = rate(100.0, burst=28, workers=workers)

    assert workers / own.interval_s == pytest.approx(100.0)
    assert workers * (own.slack_s / own.interval_s + 1) <= 28 + 1e-9


def test_a_rate_may_be_taken_away() -> None:
    """S3-2: a setting that is gone limits nothing from then on."""
    clock = sent(sent(rate(0.1, burst=1), 50.0), 50.0)

    assert opens_at(with_rate(clock, None, None, 1), 50.0) <= 50.0


def test_a_clock_that_steps_back_does_not_hold_the_endpoint() -> None:
    """The wall clock is set back by an hour; the next request goes after one interval at most."""
    clock = slow_start(sent(rate(1.0), 7200.0), 7200.0)
    now, asked = 3600.0, 0
    while now < opens_at(clock, now):
        now, asked = opens_at(clock, now), asked + 1
        assert asked < 3, "each look is put off by one more interval"

    assert now <= 3601.0
    clock = sent(clock, now)
    assert opens_at(clock, now) <= now + 1.0


@given(st.floats(0.01, 500), st.one_of(st.none(), st.integers(1, 50)), st.lists(st.floats(0, 3), max_size=50))
def test_the_room_is_what_goes_at_once(per_s: float, burst: int | None, steps: list[float]) -> None:
    """S1-11: as many as there is room for start now, and not one more."""
    clock, now = rate(per_s, burst), 1000.0
    for step in steps:
        now += step / per_s
        for _ in range(room(clock, now)):
            assert opens_at(clock, now) <= now + 1e-6 * (1 + 1 / per_s)
            clock = sent(clock, now)
        assert room(clock, now) == 0
        assert opens_at(clock, now) > now


@given(times, st.lists(st.tuples(st.floats(-5, 100), st.floats(-100, 100), intervals), max_size=50))
def test_what_is_put_off_keeps_its_distance_and_its_earliest_time(
    start: float, steps: list[tuple[float, float, float]]
) -> None:
    """Fault 55: never before now or the earliest time, and as far apart as was said at each step."""
    now, free_from = start, 0.0
    free_at = 0.0
    for step, earliest_in_s, interval_s in steps:
        now += step
        free_at, at = spread(free_at, now, now + earliest_in_s, interval_s)

        assert at == max(now, now + earliest_in_s, free_from)
        assert free_at == at + interval_s
        free_from = free_at


@given(st.lists(st.tuples(st.sampled_from(["pause", "send"]), times), max_size=30))
def test_pause_holds_everything_and_is_never_shortened(steps: list[tuple[str, float]]) -> None:
    """Fault 39: after Retry-After nothing is sent earlier."""
    clock, latest = Pace(), 0.0
    for kind, at in steps:
        if kind == "pause":
            clock = pause_until(clock, at)
            latest = max(latest, at)
        else:
            clock = sent(clock, at)
        assert opens_at(clock, 0.0) == latest


def test_slow_start_doubles_the_pace_with_every_success() -> None:
    """S3-1: one a second at first, twice as fast per success, then unlimited."""
    clock, now = slow_start(Pace(), 50.0), 50.0
    waits = []
    while clock.slow_s:
        clock = sent(clock, now)
        waits.append(opens_at(clock, now) - now)
        now = opens_at(clock, now)
        clock = speed_up(clock, now)

    assert waits == pytest.approx([1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625], abs=1e-5)
    assert not clock.limits
    assert speed_up(clock, now) is clock


def test_a_failure_slows_the_start_down() -> None:
    """Half as fast after a failure, never slower than one a second."""
    clock = slow_start(Pace(), 0.0)
    for _ in range(3):
        clock = speed_up(clock, 0.0)

    slower = slow_down(clock, 10.0)

    assert (clock.slow_s, slower.slow_s) == (0.125, 0.25)
    assert opens_at(slower, 10.0) == 10.25
    for _ in range(9):
        slower = slow_down(slower, 10.0)
    assert slower.slow_s == SLOW_START_S
    assert slow_down(Pace(), 10.0) == Pace()


def test_slow_start_holds_to_a_pause_and_a_rate() -> None:
    """Retry-After still holds; the interval of a rate stays when the slow start is over."""
    assert opens_at(slow_start(pause_until(Pace(), 60.0), 30.0), 30.0) == 60.0
    clock = slow_start(rate(5.0, burst=1), 0.0)
    for _ in range(10):
        clock = speed_up(clock, 0.0)

    assert opens_at(sent(clock, 0.0), 0.0) == pytest.approx(0.2)


def test_throttling_without_a_time_waits_longer_each_time() -> None:
    """SW-38: a second, doubling, a minute at most."""
    assert [throttle_s(n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 32, 60]
    assert throttle_s(10_000) == 60


def test_saturated_endpoint_takes_what_its_slots_give() -> None:
    """Sixteen slots of 2 s each are eight requests a second."""
    assert saturation_interval_s(2.0, 16) == 0.125


@given(
    st.integers(1, 2_000),
    st.sampled_from([0.0006, 0.005, 0.05, 0.95, 15.0]),
    st.sampled_from([0.005, 0.02]),
    st.floats(0, 300),
)
def test_what_is_held_is_given_moments_at_most_a_little_ahead(
    count: int, interval_s: float, least_s: float, due_s: float
) -> None:
    """Fault 83: however slow the endpoint is, moments lie within a minute behind the end of the hold."""
    earliest, free_at, given = 1000.0 + due_s, 0.0, []
    for _ in range(count):
        free_at, at = spread_within(free_at, earliest, interval_s, least_s)
        given.append(at)

    gaps = [after - before for before, after in pairwise(given)]
    assert given[0] == earliest
    assert min(gaps, default=least_s) >= least_s - 1e-6
    assert given[-1] - earliest <= AHEAD_S + interval_s / 2 + count * least_s
    near = [gap for gap, at in zip(gaps, given, strict=False) if at - earliest <= AHEAD_S / 2]
    assert near == pytest.approx([max(interval_s, least_s)] * len(near), abs=1e-6)
