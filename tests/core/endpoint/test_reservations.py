"""The reservations that an endpoint gives out, and the checks on the way to them."""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.reservations import (
    AHEAD_S,
    LOOK_INTERVAL_S,
    LOOK_S,
    Reservations,
    spread,
    spread_within,
)
from tests.support.fakes import START


@given(
    st.floats(0, 2e9),
    st.lists(st.tuples(st.floats(-5, 100), st.floats(-100, 100), st.floats(0, 3600)), max_size=50),
)
def test_reservations_keep_their_distance_and_their_earliest_time(
    start: float, steps: list[tuple[float, float, float]]
) -> None:
    """Fault 55: never before now or the earliest time, and at the interval of each step."""
    now, free_from = start, 0.0
    free_at = 0.0
    for step, earliest_in_s, interval_s in steps:
        now += step
        free_at, at = spread(free_at, now, now + earliest_in_s, interval_s)

        assert at == max(now, now + earliest_in_s, free_from)
        assert free_at == at + interval_s
        free_from = free_at


@given(
    st.integers(1, 2_000),
    st.sampled_from([0.0006, 0.005, 0.05, 0.95, 15.0]),
    st.sampled_from([0.005, 0.02]),
    st.floats(0, 300),
)
def test_held_deliveries_get_reservations_at_most_a_little_ahead(
    count: int, interval_s: float, least_s: float, due_s: float
) -> None:
    """Fault 83: however slow the endpoint is, reservations end within a minute of the end of the hold."""
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


@pytest.mark.parametrize("count", [100, 1_000, 4_000])
def test_deliveries_that_came_together_do_not_come_back_together(count: int) -> None:
    """Fault 83: it takes one request a second; every waiting delivery is checked about twice a minute."""
    reservations, waiting, looks = Reservations(), [START] * count, list[float]()
    while len(looks) < 6 * count:
        now = heappop(waiting)
        heappush(waiting, reservations.take(now, now, 1.0, 0.005))
        looks.append(now)

    late = looks[3 * count :]
    lap_s = (late[-1] - late[0]) / 3
    busiest = max(bisect_left(late, at + 1.0) - place for place, at in enumerate(late))
    assert AHEAD_S / 2 <= lap_s <= AHEAD_S + 5
    assert busiest <= 3 * count / lap_s + 3


def test_reservations_under_a_rate_keep_their_distance() -> None:
    """Decision 12: they are exact, and reach as far ahead as the queue is long."""
    reservations = Reservations()

    turns = [reservations.take(START, START, 0.1, 0.1) for _ in range(3_000)]

    assert [after - before for before, after in pairwise(turns)] == pytest.approx([0.1] * 2_999, abs=1e-5)


def test_looks_on_the_way_cost_no_more_than_some_a_second() -> None:
    """After a minute, and later where 100,000 wait: one each 50 ms."""
    reservations = Reservations()

    looks = [reservations.look_s(START) for _ in range(100_000)]

    assert looks[0] == LOOK_S
    assert looks[-1] == pytest.approx(LOOK_S + 99_999 * LOOK_INTERVAL_S, abs=0.1)


def test_reservations_from_before_a_free_are_void() -> None:
    """Decision 13: by when it was given out, in whole milliseconds; a step of the clock moves that along."""
    reservations = Reservations()
    assert not reservations.is_void(START)
    reservations.free(START + 10)

    assert reservations.is_void(START + 10)
    assert not reservations.is_void(START + 10.1)
    reservations.set_back(5)
    assert reservations.is_void(START + 5)
    assert not reservations.is_void(START + 5.1)
