"""How fast an endpoint answers: slots become free at that distance."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.latency import FIRST_LATENCY_S, Latency

NOW = 1_700_000_000.0


@given(st.lists(st.sampled_from([0.1, 0.99, 1.0, 15.0]), max_size=70))
def test_slow_is_judged_by_the_last_twenty(durations: Sequence[float]) -> None:
    """The running count is the p90 over a window of 20: it recovers."""
    latency = Latency(1.0)
    window: deque[float] = deque(maxlen=20)
    for duration_s in durations:
        was = latency.is_slow
        ended = latency.learn(duration_s, NOW, taken=True)
        window.append(duration_s)

        assert latency.is_slow == (sum(each >= 1.0 for each in window) * 10 > len(window))
        assert not ended or (was and not latency.is_slow)


def test_saturated_endpoint_gets_the_rate_of_its_slots() -> None:
    """Sixteen slots of 2 s each are eight requests a second."""
    latency = Latency(1.0)
    for _ in range(100):
        latency.learn(2.0, NOW, taken=True)

    assert latency.well_interval_s(16) == pytest.approx(0.125)
    assert latency.slot_interval_s(NOW, 16, idle=True) == pytest.approx(0.125)


def test_requests_that_hang_are_slow_before_they_end() -> None:
    """Fault 53: the silence counts as latency, and an idle endpoint has none."""
    latency = Latency(1.0)
    latency.began(NOW)

    assert not latency.is_slow_at(NOW + 0.9, idle=False)
    assert latency.is_slow_at(NOW + 1.0, idle=False)
    assert not latency.is_slow_at(NOW + 1.0, idle=True)
    assert latency.slot_interval_s(NOW + 8.0, 4, idle=False) == 2.0
    latency.set_back(3600.0)
    assert latency.slot_interval_s(NOW + 8.0 - 3600.0, 4, idle=False) == 2.0


def test_time_outs_teach_nothing_about_the_healthy_speed() -> None:
    """Decision 13: after an outage the deliveries that waited are spaced as before it."""
    latency = Latency(1.0)
    for _ in range(50):
        latency.learn(15.0, NOW, taken=False)
    assert latency.slot_interval_s(NOW, 1, idle=True) > 14.0

    latency.recover()

    assert latency.slot_interval_s(NOW, 1, idle=True) == FIRST_LATENCY_S


@given(st.lists(st.floats(0, 60), max_size=60))
def test_the_95th_percentile_is_that_of_the_recent_attempts(durations_s: list[float]) -> None:
    """Of the last 20 the second longest; the share of slow ones is theirs too."""
    latency = Latency(1.0)
    for duration_s in durations_s:
        latency.learn(duration_s, 0.0, taken=True)
    window = sorted(durations_s[-20:])

    assert latency.p95_s == (window[-2] if len(window) == 20 else window[-1] if window else 0.0)
    slow = sum(each >= 1.0 for each in window)
    assert latency.slow_ratio == (slow / len(window) if window else 0.0)
