"""A policy in the words of the first source document."""

from __future__ import annotations

import pytest

from consumer.core.retry.policy import POLICIES, Growth, Jitter, RetryPolicy
from consumer.core.retry.policy_text import retry_config, sender_stats, strategy


def test_sender_stats_have_the_documents_fields_and_formats() -> None:
    """S0-6: default time-out, configuration, strategy, sequence and total of the policy in force."""
    assert sender_stats(POLICIES["default"], 15.0) == {
        "defaultTimeout": 15000,
        "defaultRetryConfig": {
            "maxAttempts": 5,
            "baseDelay": 1000,
            "multiplier": 2.0,
            "maxDelay": 60000,
            "enableJitter": True,
            "jitterFactor": 0.1,
        },
        "backoffStrategy": {
            "type": "exponential",
            "maxAttempts": 5,
            "baseDelay": "1000ms",
            "multiplier": "2x",
            "maxDelay": "60000ms",
            "jitter": "±10%",
        },
        "delaySequence": ["1000ms", "2000ms", "4000ms", "8000ms"],
        "maxTotalDuration": "15000ms",
    }


@pytest.mark.parametrize(
    ("policy", "kind", "growth", "jitter"),
    [
        (RetryPolicy(multiplier=1.5, jitter_ratio=0.25), "exponential", "1.5x", "±25%"),
        (RetryPolicy(growth=Growth.LINEAR, jitter_ratio=0.0), "linear", "linear", "none"),
        (RetryPolicy(schedule_s=(1.0,), jitter_kind=Jitter.FULL), "schedule", "schedule", "full"),
        (RetryPolicy(adaptive=True), "adaptive", "1.5x-2.5x", "±10%"),
    ],
)
def test_growth_and_jitter_in_words(policy: RetryPolicy, kind: str, growth: str, jitter: str) -> None:
    """S0-6: the kinds that the document did not know are named too."""
    words = strategy(policy)

    assert (words["type"], words["multiplier"], words["jitter"]) == (kind, growth, jitter)
    assert retry_config(policy)["enableJitter"] is (jitter != "none")
