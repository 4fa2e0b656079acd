"""When an endpoint that only fails is given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.health import APART_S, Failing, failed, is_gone

HOUR = 3600.0
DAY = 24 * HOUR
AFTER_S = 5 * DAY


def after(*failures_h: float) -> tuple[Failing | None, float]:
    """Return the state after failures at these hours, and the time of the last."""
    state: Failing | None = None
    for at in failures_h:
        state = failed(state, at * HOUR)
    return state, failures_h[-1] * HOUR


@pytest.mark.parametrize(
    ("failures_h", "gone"),
    [
        ((0, 1, 13, 119), False),
        ((0, 1, 13, 120), True),
        ((0, 12, 120), True),
        ((0, 11.9, 150), False),
        ((0, 150), False),
        ((0, 150, 163), False),
        ((0, 150, 163, 270), True),
        ((*range(0, 120, 5), 121), True),
    ],
)
def test_five_days_of_nothing_but_failures(failures_h: tuple[float, ...], gone: bool) -> None:
    """SW-41: five days, and in a day of them first and last failure at least 12 h apart."""
    state, now = after(*failures_h)

    assert is_gone(state, now, AFTER_S) is gone


@given(st.lists(st.floats(0, 30 * HOUR), min_size=1, max_size=60), st.floats(1, 10 * DAY))
def test_never_before_its_time(gaps_s: list[float], after_s: float) -> None:
    """SW-41: whatever the failures, none is given up before the set time and half a day have passed."""
    state: Failing | None = None
    now = first = 1e9
    for gap_s in gaps_s:
        now += gap_s
        state = failed(state, now)
        if is_gone(state, now, after_s):
            assert now - first >= after_s
            assert now - first >= APART_S


def test_zero_never_disables() -> None:
    """Settings: ``disable_after_s: 0`` keeps an endpoint for ever."""
    state, now = after(0, 13, 10_000)

    assert not is_gone(state, now, 0)
    assert not is_gone(None, now, AFTER_S)
