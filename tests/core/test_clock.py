"""One clock per endpoint: reservations keep their distance, pauses hold, slow start ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.clock import (
    EndpointClock,
    pause_until,
    ready,
    reserve,
    saturation_interval_s,
    slow_start,
    speed_up,
    spread,
)

times = st.floats(0, 2e9)
intervals = st.floats(0, 3600)


@given(times, intervals, st.lists(st.floats(-5, 100), min_size=1, max_size=50))
def test_reservations_keep_their_distance(start: float, interval_s: float, steps: list[float]) -> None:
    """ARCHITECTURE: never before now, never closer than the interval, even if time steps back."""
    clock = EndpointClock(next_at=start, interval_s=interval_s)
    now, last = start, None
    for step in steps:
        now += step
        clock, not_before = reserve(clock, now)

        assert not_before >= now
        if last is not None:
            assert not_before >= last + interval_s
        last = not_before


@given(
    times, st.lists(st.tuples(st.floats(-5, 100), st.floats(-100, 100), intervals), min_size=1, max_size=50)
)
def test_what_is_spread_keeps_its_distance_and_its_earliest_time(
    start: float, steps: list[tuple[float, float, float]]
) -> None:
    """ARCHITECTURE: never before now or the earliest time, and as far apart as was said at each step."""
    clock, now, free_from = EndpointClock(), start, 0.0
    for step, earliest_in_s, interval_s in steps:
        now += step
        clock, at = spread(clock, now, now + earliest_in_s, interval_s)

        assert at == max(now, now + earliest_in_s, free_from)
        assert clock.next_at == at + interval_s
        free_from = at + interval_s


@given(times, times, intervals)
def test_free_endpoint_sends_at_once(next_at: float, now: float, interval_s: float) -> None:
    """An endpoint whose time has come costs no wait; otherwise the wait is for its next free moment."""
    clock = EndpointClock(next_at=next_at, interval_s=interval_s)

    _, not_before = reserve(clock, now)

    assert (not_before == now) == ready(clock, now, reserved=False)
    assert not_before in (now, next_at)


@given(
    st.lists(st.one_of(times.map(lambda t: ("pause", t)), times.map(lambda t: ("reserve", t))), max_size=30)
)
def test_pause_holds_everything_and_is_never_shortened(steps: list[tuple[str, float]]) -> None:
    """FAULTS 39: after Retry-After nothing is sent earlier, neither fresh nor with a reservation."""
    clock, latest = EndpointClock(), 0.0
    for kind, at in steps:
        if kind == "pause":
            clock = pause_until(clock, at)
            latest = max(latest, at)
        else:
            clock, not_before = reserve(clock, at)
            assert not_before >= latest
        assert clock.held_until == latest
        assert ready(clock, latest, reserved=True)
        if latest:
            assert not ready(clock, latest - 1, reserved=True)
            assert not ready(clock, latest - 1, reserved=False)


def test_what_waited_comes_back_at_the_endpoints_pace() -> None:
    """FAULTS 55: after a pause, deliveries stand one interval apart: no stampede."""
    clock = pause_until(EndpointClock(interval_s=0.5), 100.0)
    moments = []
    for _ in range(4):
        clock, not_before = reserve(clock, 10.0)
        moments.append(not_before)

    assert moments == [100.0, 100.5, 101.0, 101.5]


def test_reservation_is_honoured_although_others_queue_behind() -> None:
    """A delivery back at its own moment is sent, while a fresh one still waits its turn."""
    clock = EndpointClock(interval_s=10.0)
    clock, _ = reserve(clock, 0.0)
    clock, mine = reserve(clock, 0.0)
    for _ in range(5):
        clock, _ = reserve(clock, 0.0)

    assert mine == 10.0
    assert ready(clock, mine, reserved=True)
    assert not ready(clock, mine, reserved=False)


def test_slow_start_doubles_the_pace_with_every_success() -> None:
    """S3-1, ARCHITECTURE "Breaker": one a second at first, twice as fast per success, then unlimited."""
    clock = slow_start(EndpointClock(), 50.0)
    spacings = []
    while clock.spacing_s:
        spacings.append(clock.spacing_s)
        clock = speed_up(clock)

    assert spacings == [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625]
    assert speed_up(clock) is clock


def test_slow_start_forgets_the_queue_but_not_a_pause() -> None:
    """Fresh deliveries need not wait behind moments reserved during the outage; Retry-After still holds."""
    clock = EndpointClock(interval_s=1.0)
    for _ in range(100):
        clock, _ = reserve(clock, 0.0)

    assert reserve(slow_start(clock, 30.0), 30.0)[1] == 30.0
    assert reserve(slow_start(pause_until(clock, 60.0), 30.0), 30.0)[1] == 60.0


def test_configured_rate_outlasts_slow_start() -> None:
    """ARCHITECTURE: the interval of a rate stays when the slow start is over."""
    clock = slow_start(EndpointClock(interval_s=0.2), 0.0)
    assert clock.spacing_s == 1.0
    for _ in range(10):
        clock = speed_up(clock)

    assert clock.spacing_s == 0.2
    assert slow_start(EndpointClock(interval_s=5.0), 0.0).spacing_s == 5.0


def test_saturated_endpoint_takes_what_its_slots_give() -> None:
    """ARCHITECTURE: sixteen slots of 2 s each are eight requests a second."""
    assert saturation_interval_s(2.0, 16) == 0.125
