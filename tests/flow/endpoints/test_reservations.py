"""The moments that an endpoint gives out, and the looks on the way to them."""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from itertools import pairwise

import pytest

from consumer.core.endpoint.pace import AHEAD_S
from consumer.flow.endpoints.reservations import LOOK_INTERVAL_S, LOOK_S, Reservations
from tests.support.fakes import START


@pytest.mark.parametrize("count", [100, 1_000, 4_000])
def test_a_crowd_that_came_at_once_does_not_come_back_as_one(count: int) -> None:
    """Fault 83: it takes one request a second; all who wait look about every half minute, spread evenly."""
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


def test_turns_under_a_rate_keep_their_distance() -> None:
    """Decision 12: they are no guess, and run ahead as far as the queue is long."""
    reservations = Reservations()

    turns = [reservations.take(START, START, 0.1, 0.1) for _ in range(3_000)]

    assert [after - before for before, after in pairwise(turns)] == pytest.approx([0.1] * 2_999, abs=1e-5)


def test_looks_on_the_way_cost_no_more_than_some_a_second() -> None:
    """After a minute, and later where 100,000 wait: one each 50 ms."""
    reservations = Reservations()

    looks = [reservations.look_s(START) for _ in range(100_000)]

    assert looks[0] == LOOK_S
    assert looks[-1] == pytest.approx(LOOK_S + 99_999 * LOOK_INTERVAL_S, abs=0.1)


def test_what_was_given_out_before_it_was_freed_is_void() -> None:
    """Decision 13: by when it was given out, in whole milliseconds; a step of the clock moves that along."""
    reservations = Reservations()
    assert not reservations.is_void(START)
    reservations.free(START + 10)

    assert reservations.is_void(START + 10)
    assert not reservations.is_void(START + 10.1)
    reservations.set_back(5)
    assert reservations.is_void(START + 5)
    assert not reservations.is_void(START + 5.1)
