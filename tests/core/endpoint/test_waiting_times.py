"""How many deliveries wait, as far as one worker stored them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.waiting_times import WIDEST_S, WaitingTimes, slice_end

NOW = 1_700_000_000.0


@given(st.lists(st.floats(0.001, 86_400), max_size=50), st.floats(0, 90_000))
def test_each_delivery_counts_until_its_time_is_over(waits_s: list[float], later_s: float) -> None:
    """It counts at least until then, and never for much longer; the slices are few."""
    times = WaitingTimes()
    for wait_s in waits_s:
        times.add(slice_end(NOW + wait_s, NOW), NOW)
    assert len(times._slices) <= 60 // 5 + 60 + 86_400 // WIDEST_S + 3

    count = times.count(NOW + later_s)

    assert sum(wait_s > later_s for wait_s in waits_s) <= count
    assert count <= sum(wait_s * 1.25 + 5 >= later_s for wait_s in waits_s)


def test_the_oldest_event_of_those_that_wait() -> None:
    """It is known however long the wait is, and forgotten with the end of the wait."""
    times = WaitingTimes()
    assert times.oldest_at(NOW) is None
    times.add(slice_end(NOW + 4_000, NOW), NOW - 50)
    times.add(slice_end(NOW + 30, NOW), NOW - 90)

    assert times.oldest_at(NOW) == NOW - 90
    assert times.oldest_at(NOW + 60) == NOW - 50
    assert times.oldest_at(NOW + 9_000) is None


def test_a_part_is_taken_from_the_longest_waits() -> None:
    """As a kick does; what is left and what was taken add up."""
    times = WaitingTimes()
    for wait_s in (30, 30, 4_000, 4_000, 4_000):
        times.add(slice_end(NOW + wait_s, NOW), NOW)

    taken = times.take(4)

    assert (times.count(NOW), taken.count(NOW)) == (1, 4)
    assert times.take(9).count(NOW) == 1
    assert times.count(NOW) == 0
    assert taken.count(NOW + 60) == 3


def test_deliveries_that_move_are_counted_once() -> None:
    """With the oldest of both."""
    one, two, end = WaitingTimes(), WaitingTimes(), slice_end(NOW + 30, NOW)
    one.add(end, NOW - 5)
    two.add(end, NOW - 9)
    two.add(end + 5, NOW - 1)

    two.move(one)

    assert (one.count(NOW), one.oldest_at(NOW), two.count(NOW)) == (3, NOW - 9, 0)


def test_freed_deliveries_count_no_more() -> None:
    """A breaker that closed frees the deliveries of its endpoint, and no others."""
    everything, of_one = WaitingTimes(), WaitingTimes()
    end = slice_end(NOW + 30, NOW)
    for _ in range(3):
        everything.add(end, NOW)
    of_one.add(end, NOW)
    of_one.add(end + 1_000, NOW)

    everything.subtract(of_one)
    assert everything.count(NOW) == 2
    of_one.clear()
    assert of_one.count(NOW) == 0
