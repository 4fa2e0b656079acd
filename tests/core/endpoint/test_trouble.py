"""Whose deliveries are in trouble, and why: judged from what happened in the last minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.trouble import (
    CAUSES,
    FAILURES,
    SLICES,
    Cause,
    RecentCauses,
    Signs,
    failure_cause,
    hold_cause,
    judge,
)
from consumer.core.model import OutcomeKind

COUNTS = st.integers(0, 1_000)
SIGNS = st.builds(
    Signs,
    counts=st.dictionaries(st.sampled_from(sorted(CAUSES)), st.integers(1, 1_000)),
    delivered=COUNTS,
    last=st.none() | st.sampled_from(sorted(FAILURES)),
    is_closed=st.booleans(),
    waiting=COUNTS,
    slow_ratio=st.floats(0, 1),
    parked=COUNTS,
    is_disabled=st.booleans(),
)


@given(SIGNS)
def test_a_trouble_has_a_share_a_cause_of_the_closed_set_and_a_weight(signs: Signs) -> None:
    """The label of the cause is closed, and the value is a share, whatever happened."""
    trouble = judge(signs)

    assert trouble is None or (0 < trouble.share <= 1 and trouble.cause in CAUSES and trouble.weight > 0)


@given(SIGNS, st.sampled_from(sorted(FAILURES)))
def test_more_failures_never_weigh_less(signs: Signs, cause: str) -> None:
    """An endpoint that fails more often cannot lose its place to a healthier one by that."""
    worse = signs._replace(counts={**signs.counts, cause: signs.counts.get(cause, 0) + 1})
    before, after = judge(signs._replace(is_disabled=False)), judge(worse._replace(is_disabled=False))

    assert after is not None
    if signs.counts and before is not None:
        assert after.weight >= before.weight


@pytest.mark.parametrize(
    ("signs", "share", "cause"),
    [
        (Signs(counts={"http_5xx": 5, "timeout_total": 4}, delivered=1), 0.9, "http_5xx"),
        (Signs(counts={"slow": 90, "timeout_total": 10}), 1.0, "timeout_total"),
        (Signs(counts={"waiting": 1_000, "http_5xx": 1}), 1.0, "waiting"),
        (Signs(is_closed=False), 1.0, "breaker"),
        (Signs(is_closed=False, last="dns"), 1.0, "dns"),
        (Signs(waiting=1, delivered=3, last="http_4xx"), 0.25, "http_4xx"),
        (Signs(waiting=2), 1.0, "waiting"),
        (Signs(delivered=9, slow_ratio=0.5), 0.5, "slow"),
        (Signs(delivered=9, parked=1), 0.1, "parked"),
        (Signs(counts={"http_4xx": 1}, is_disabled=True), 1.0, "disabled"),
    ],
)
def test_the_cause_is_named(signs: Signs, share: float, cause: str) -> None:
    """A failure explains the holds that follow it, unless it is rare among them."""
    trouble = judge(signs)

    assert trouble is not None
    assert trouble.share == pytest.approx(share)
    assert trouble.cause == cause


def test_a_healthy_subscription_has_no_trouble() -> None:
    """Deliveries alone, a single slow one, and an idle slow endpoint are no trouble."""
    assert judge(Signs(delivered=100)) is None
    assert judge(Signs(delivered=100, slow_ratio=0.05)) is None
    assert judge(Signs(slow_ratio=1.0)) is None


def test_an_endpoint_that_fails_weighs_more_than_one_that_is_slow_or_has_parked_entries() -> None:
    """With the same number of deliveries; and more affected deliveries weigh more."""
    failing = judge(Signs(counts={"dns": 100}))
    slow, parked = judge(Signs(delivered=100, slow_ratio=1.0)), judge(Signs(parked=100))
    few = judge(Signs(counts={"dns": 1}))

    assert failing is not None
    assert all(each is not None and each.weight < failing.weight for each in (slow, parked, few))


def test_statuses_and_holds_have_causes() -> None:
    """429 has a cause of its own, and a hold by the breaker has the cause of the failures."""
    assert failure_cause(OutcomeKind.HTTP_4XX, 429) == "rate_limited"
    assert failure_cause(OutcomeKind.HTTP_4XX, 404) == "http_4xx"
    assert hold_cause("breaker", "tls") == "tls"
    assert hold_cause("breaker", None) == Cause.BREAKER
    assert hold_cause("paced", "rate_limited") == "rate_limited"
    assert hold_cause("paced", "tls") == hold_cause("saturated", None) == Cause.WAITING
    assert {hold_cause(reason, None) for reason in ("slow", "paused", "locked")} == {
        "slow",
        "paused",
        "locked",
    }


def test_a_minute_is_remembered_and_no_more() -> None:
    """Failures leave after four slices; deliveries are those since the oldest slice began."""
    recent = RecentCauses()
    recent.turn(1_000)
    recent.failed("dns")
    recent.held("breaker")

    assert recent.counts() == {"dns": 2}
    assert recent.delivered(1_010) == 10
    assert recent.delivered(3) == 3, "another endpoint counts from 0"
    for _ in range(SLICES):
        recent.turn(1_010)
    assert recent.counts() == {}
    assert recent.last == "dns"
    assert recent.delivered(1_015) == 5
