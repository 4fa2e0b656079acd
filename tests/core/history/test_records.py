"""Rows and queries of the history."""

from __future__ import annotations

import pytest

from consumer.core.errors import ConfigError
from consumer.core.history.records import LIMIT_MAX, HistoryRow, Query, Step, is_failure


@pytest.mark.parametrize(
    ("step", "reason", "failed"),
    [
        (Step.ATTEMPT, "delivered", False),
        (Step.ATTEMPT, "retry", True),
        (Step.ATTEMPT, "park", True),
        (Step.PARKED, "exhausted", True),
        (Step.RECEIVED, "", False),
        (Step.DEFERRED, "breaker", False),
    ],
)
def test_a_failure_is_an_attempt_that_did_not_deliver_or_a_parked_delivery(
    step: Step, reason: str, failed: bool
) -> None:
    """A deferral spends no attempt, so it is not a failure."""
    assert is_failure(HistoryRow(1.0, step.value, "ord-1", reason=reason)) is failed


@pytest.mark.parametrize("limit", [0, -1, LIMIT_MAX + 1])
def test_a_query_is_bounded(limit: int) -> None:
    """A query names between one row and the most that one answer holds."""
    with pytest.raises(ConfigError, match="limit"):
        Query(limit=limit)
