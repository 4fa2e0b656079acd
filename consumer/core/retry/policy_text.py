"""Describe a retry policy in the fields and formats of the first source document.

Data flow: RetryPolicy -> texts in milliseconds -> API (``/webhook/subscriptions/sender/stats``).

Source: S0-6.
"""

from __future__ import annotations

import math

from consumer.core.retry.policy import Growth, Jitter, RetryPolicy, planned_delays_s


def milliseconds(seconds: float) -> int:
    """Return whole milliseconds."""
    return round(seconds * 1000)


def retry_config(policy: RetryPolicy) -> dict[str, object]:
    """Return the policy as ``retryConfig`` of S0-4, durations in milliseconds."""
    return {
        "maxAttempts": policy.max_attempts,
        "baseDelay": milliseconds(policy.base_s),
        "multiplier": policy.multiplier,
        "maxDelay": milliseconds(policy.max_s),
        "enableJitter": policy.jitter_ratio > 0 or policy.jitter_kind is not Jitter.SPREAD,
        "jitterFactor": policy.jitter_ratio,
    }


def strategy(policy: RetryPolicy) -> dict[str, object]:
    """Return the waits in words: ``exponential``, ``1000ms``, ``2x``, ``±10%``."""
    if policy.schedule_s is not None:
        growth = "schedule"
    elif policy.growth is Growth.LINEAR:
        growth = "linear"
    else:
        growth = "1.5x-2.5x" if policy.adaptive else f"{policy.multiplier:g}x"
    spread = f"±{policy.jitter_ratio * 100:g}%" if policy.jitter_ratio else "none"
    return {
        "type": _kind(policy),
        "maxAttempts": policy.max_attempts,
        "baseDelay": f"{milliseconds(policy.base_s)}ms",
        "multiplier": growth,
        "maxDelay": f"{milliseconds(policy.max_s)}ms",
        "jitter": spread if policy.jitter_kind is Jitter.SPREAD else policy.jitter_kind.value,
    }


def _kind(policy: RetryPolicy) -> str:
    """Return the kind of growth: ``schedule``, ``linear``, ``adaptive`` or ``exponential``."""
    if policy.schedule_s is not None:
        return "schedule"
    if policy.growth is Growth.LINEAR:
        return "linear"
    return "adaptive" if policy.adaptive else "exponential"


def sender_stats(policy: RetryPolicy, timeout_s: float) -> dict[str, object]:
    """Return the answer of ``GET /webhook/subscriptions/sender/stats``.

    Args:
        policy: The one in force where a subscription names none.
        timeout_s: Total deadline of one attempt.
    """
    delays_s = planned_delays_s(policy)
    return {
        "defaultTimeout": milliseconds(timeout_s),
        "defaultRetryConfig": retry_config(policy),
        "backoffStrategy": strategy(policy),
        "delaySequence": [f"{milliseconds(wait_s)}ms" for wait_s in delays_s],
        "maxTotalDuration": f"{milliseconds(math.fsum(delays_s))}ms",
    }
