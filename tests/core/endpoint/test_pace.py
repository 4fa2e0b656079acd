"""One pace per endpoint: requests keep their distance, pauses hold, a slow start ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.pace import SLOW_START_S, Pace, Throttle, throttle_s

times = st.floats(0, 2e9)


def rate(per_s: float, burst: int | None = None) -> Pace:
    """Return the pace of an endpoint with a configured rate."""
    return Pace().with_rate(per_s, burst, 1)


def test_a_rate_may_be_taken_away() -> None:
    """S3-2: a setting that is gone limits nothing from then on."""
    pace = rate(0.1, burst=1).sent(50.0).sent(50.0)

    assert pace.with_rate(None, None, 1).opens_at(50.0) <= 50.0


def test_a_changed_rate_gives_out_no_second_burst() -> None:
    """S3-2: requests sent under the earlier setting count."""
    pace = rate(10.0, burst=1).sent(50.0)

    assert pace.with_rate(5.0, 1, 1).opens_at(50.0) == pytest.approx(50.1)


def test_a_clock_that_steps_back_does_not_hold_the_endpoint() -> None:
    """The wall clock is set back by an hour; the next request goes after one interval at most."""
    pace = rate(1.0).sent(7200.0).started_slowly(7200.0)
    now, asked = 3600.0, 0
    while now < pace.opens_at(now):
        now, asked = pace.opens_at(now), asked + 1
        assert asked < 3, "each look is put off by one more interval"

    assert now <= 3601.0
    pace = pace.sent(now)
    assert pace.opens_at(now) <= now + 1.0


@given(st.lists(st.tuples(st.sampled_from(["pause", "send"]), times), max_size=30))
def test_pause_holds_everything_and_is_never_shortened(steps: list[tuple[str, float]]) -> None:
    """Fault 39: after Retry-After nothing is sent earlier."""
    pace, latest = Pace(), 0.0
    for kind, at in steps:
        if kind == "pause":
            pace = pace.paused(at)
            latest = max(latest, at)
        else:
            pace = pace.sent(at)
        assert pace.opens_at(0.0) == latest


def test_slow_start_doubles_the_pace_with_every_success() -> None:
    """S3-1: one a second at first, twice as fast per success, then unlimited."""
    pace, now = Pace().started_slowly(50.0), 50.0
    waits = []
    while pace.slow_s:
        pace = pace.sent(now)
        waits.append(pace.opens_at(now) - now)
        now = pace.opens_at(now)
        pace = pace.sped_up(now)

    assert waits == pytest.approx([1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625], abs=1e-5)
    assert not pace.limits
    assert pace.sped_up(now) is pace


def test_a_failure_slows_the_start_down() -> None:
    """Half as fast after a failure, never slower than one a second."""
    pace = Pace().started_slowly(0.0)
    for _ in range(3):
        pace = pace.sped_up(0.0)

    slower = pace.slowed_down(10.0)

    assert (pace.slow_s, slower.slow_s) == (0.125, 0.25)
    assert slower.opens_at(10.0) == 10.25
    for _ in range(9):
        slower = slower.slowed_down(10.0)
    assert slower.slow_s == SLOW_START_S
    assert Pace().slowed_down(10.0) == Pace()


def test_slow_start_holds_to_a_pause_and_a_rate() -> None:
    """Retry-After still holds; the interval of a rate stays when the slow start is over."""
    assert Pace().paused(60.0).started_slowly(30.0).opens_at(30.0) == 60.0
    pace = rate(5.0, burst=1).started_slowly(0.0)
    for _ in range(10):
        pace = pace.sped_up(0.0)

    assert pace.sent(0.0).opens_at(0.0) == pytest.approx(0.2)


def test_workers_begin_a_slow_start_one_after_the_other() -> None:
    """Four workers send one request a second together, each from its own part of the interval on."""
    pace = Pace().started_slowly(50.0, workers=4, sample=0.5)

    assert (pace.slow_s, pace.opens_at(50.0)) == (4.0, 52.0)


@given(st.floats(-4000, 4000), st.booleans(), st.booleans(), st.booleans())
def test_a_clock_that_is_set_changes_no_rest(by_s: float, pauses: bool, limits: bool, slow: bool) -> None:
    """Fault 82: the rest of a pause, a rate and a slow start is the same after the step."""
    pace = rate(2.0, burst=1).sent(1e9) if limits else Pace()
    pace = pace.paused(1e9 + 60.0) if pauses else pace
    pace = pace.started_slowly(1e9).sent(1e9) if slow else pace
    rest_s = max(pace.opens_at(1e9) - 1e9, 0.0)

    moved = pace.set_back(by_s)

    assert max(moved.opens_at(1e9 - by_s) - (1e9 - by_s), 0.0) == pytest.approx(rest_s, abs=1e-5)


def test_throttling_without_a_time_waits_longer_each_time() -> None:
    """SW-38: a second, doubling, a minute at most."""
    assert [throttle_s(n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 32, 60]
    assert throttle_s(10_000) == 60


def test_answers_of_one_moment_count_once() -> None:
    """SW-38: requests that were in flight at the last throttling lengthen no pause; a success begins anew."""
    throttle, pause_s = Throttle().asked(100.0, 0.5, timed=False)
    assert pause_s == 1.0
    assert throttle.asked(100.2, 0.5, timed=False) == (throttle, 0.0)

    assert throttle.asked(101.5, 0.1, timed=False)[1] == 2.0
    assert throttle.ended().asked(101.5, 0.1, timed=False)[1] == 1.0
    assert throttle.ended().asked(100.2, 0.5, timed=False)[1] == 0.0


def test_a_time_that_is_over_pauses_from_the_second_time_on() -> None:
    """Fault 39: ``Retry-After: 0`` is believed once."""
    throttle, first_s = Throttle().asked(100.0, 0.0, timed=True)
    _, second_s = throttle.asked(100.0, 0.0, timed=True)

    assert (first_s, second_s) == (0.0, 1.0)
