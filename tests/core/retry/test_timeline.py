"""When attempts happen, in numbers and in a picture."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.retry.policy import POLICIES, Growth, Jitter, RetryPolicy
from consumer.core.retry.timeline import ATTEMPT, draw, is_logarithmic, policy_as_dict, steps, summary

ANY = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 40),
    base_s=st.floats(0, 1e5),
    multiplier=st.floats(1, 100),
    max_s=st.floats(0, 1e6),
    jitter_ratio=st.floats(0, 1),
    schedule_s=st.none() | st.lists(st.floats(0, 1e6), min_size=1, max_size=12).map(tuple),
)


@given(ANY, st.integers(2, 200))
def test_any_policy_can_be_drawn(policy: RetryPolicy, width: int) -> None:
    """From the first attempt to the last, never wider than asked, never more marks."""
    picture = draw(policy, width)

    assert len(picture) <= width
    assert picture.startswith(ATTEMPT)
    assert picture.endswith(ATTEMPT)
    assert 1 <= picture.count(ATTEMPT) <= policy.max_attempts


@given(ANY)
def test_jitter_is_around_the_plan(policy: RetryPolicy) -> None:
    """S0-1: each wait is between its least and its most, and the times only grow."""
    planned = steps(policy)

    assert [step.attempt for step in planned] == list(range(1, policy.max_attempts + 1))
    for before, step in pairwise(planned):
        assert step.at_s >= before.at_s
        assert 0 <= step.wait_min_s <= step.wait_max_s
        assert step.wait_min_s <= round(step.wait_s, 3)


@pytest.mark.parametrize(("name", "logarithmic"), [("default", False), ("standard-webhooks", True)])
def test_a_long_schedule_needs_another_scale(name: str, logarithmic: bool) -> None:
    """5 s and 24 h are both to be seen."""
    assert is_logarithmic(POLICIES[name]) == logarithmic
    assert draw(POLICIES[name], 60).count(ATTEMPT) == POLICIES[name].max_attempts


def test_a_policy_is_described_in_one_line() -> None:
    """S0-6: a formatted summary."""
    assert summary(POLICIES["default"]) == "5 attempts in 15 s: 1 s x2 up to 1 min, ±10%"
    assert summary(POLICIES["transport-only"]) == "4 attempts in 7 s: 1 s x2 up to 1 min, no jitter"
    assert summary(RetryPolicy(max_attempts=1)).startswith("1 attempt in 0 s")


def test_every_kind_of_policy_is_described_and_is_json() -> None:
    """S0-6: growth, jitter and waits by status are named; the printed JSON is valid."""
    own = RetryPolicy(growth=Growth.LINEAR, jitter_kind=Jitter.FULL)
    policy = RetryPolicy(adaptive=True, jitter_kind=Jitter.DECORRELATED, by_status=(("429", own),))

    shown = json.loads(json.dumps(policy_as_dict(policy)))

    assert "x1.5 to 2.5 up to" in shown["summary"]
    assert "decorrelated jitter" in shown["summary"]
    assert shown["by_status"]["429"]["delays_s"] == [1, 2, 3, 4]
    assert "1 s more each time" in shown["by_status"]["429"]["summary"]
    assert shown["delays_min_s"] == [1, 1, 1, 1]
    assert shown["delays_max_s"] == [3, 9, 27, 60]
