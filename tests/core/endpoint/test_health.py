"""When an endpoint that only fails is given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.health import (
    APART_S,
    SPAN_S,
    Failing,
    Health,
    failed,
    gone_note,
    is_gone,
    is_own_reason,
    merged,
    says_gone,
)

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
    """SW-41: for all failures, an endpoint counts as gone only after the set time and half a day."""
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


moments = st.integers(0, 40).map(lambda half_days: half_days * 12 * HOUR)
failings = st.one_of(st.none(), st.builds(Failing, moments, st.booleans()))
healths = st.builds(Health, failings, moments)


@given(healths, healths)
def test_two_that_know_different_things_never_begin_too_early(one: Health, other: Health) -> None:
    """SW-41, decision 16: the same in any order; no success and no lone failure is passed over."""
    joined = merged(one, other)

    assert joined == merged(other, one)
    assert joined.taken_at == max(one.taken_at, other.taken_at)
    if joined.failing is not None:
        first = joined.failing.first_at
        assert first > joined.taken_at
        assert first in {h.failing.first_at for h in (one, other) if h.failing is not None}
        if joined.failing.counts:
            known = [h.failing for h in (one, other) if h.failing is not None]
            apart = max(f.first_at for f in known) - first
            assert any(f.counts and f.first_at == first for f in known) or APART_S <= apart <= SPAN_S


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (Health(None, 5.0), Health(Failing(4.0, counts=True)), Health(None, 5.0)),
        (Health(Failing(9.0)), Health(Failing(7.0, counts=True)), Health(Failing(7.0, counts=True))),
        (Health(Failing(7.0)), Health(Failing(9.0, counts=True)), Health(Failing(9.0, counts=True))),
        (Health(Failing(1.0)), Health(Failing(1.0 + APART_S)), Health(Failing(1.0, counts=True))),
        (Health(Failing(1.0)), Health(Failing(2.0 + SPAN_S)), Health(Failing(2.0 + SPAN_S))),
    ],
)
def test_knowledge_of_two_workers_is_joined(one: Health, other: Health, joined: Health) -> None:
    """Decision 16: a later success ends it; failures far enough apart count, from every worker."""
    assert merged(one, other) == joined


def test_a_reason_says_whether_it_is_for_long_failure() -> None:
    """The words of an endpoint come after our own, and are never taken for them."""
    assert says_gone(f"{gone_note(5 * DAY)}: HTTP 503")
    assert not says_gone("HTTP 410: every attempt failed for 5 days")
    assert not says_gone(None)
    assert is_own_reason(f"{gone_note(5 * DAY)}: HTTP 503")
    assert is_own_reason("HTTP 410")
    assert is_own_reason("webhook-delivery: disable; HTTP 200")
    assert is_own_reason("HTTP 410; Location: https://a.example/; gone\nfor good")
    for by_hand in ("HTTP 503 for days", "every attempt failed for weeks", "webhook-delivery: disabled it"):
        assert not is_own_reason(by_hand)
    assert not is_own_reason("the customer asked for it")
    assert not is_own_reason(None)
