"""Run any operation under a retry policy, in the same way as webhooks.

Data flow: operation + policy -> tries with the policy's waits between -> Executed; our reconnects use it.

Source: S0-5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from consumer.core.retry.policy import RetryPolicy, delay_s

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed(Generic[T]):
    """The result of an operation."""

    success: bool
    attempts: int  #: number of tries, at least 1
    data: T | None  #: return value; None without success
    error: Exception | None  #: error of the last try; None with success
    delays_s: tuple[float, ...]  #: the waits between the tries
    total_s: float  #: from the beginning of the first try to the end of the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """Randomness and time, injected for tests."""

    sample: Callable[[], float]  #: uniform in [0, 1)
    now: Callable[[], float]  #: seconds that never step back
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def always(_: Exception) -> bool:
    """Return True: every error is worth another try."""
    return True


async def execute_with_retry(
    operation: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    pacing: Pacing,
    *,
    is_retryable: Callable[[Exception], bool] = always,
) -> Executed[T]:
    """Try *operation* until it returns, its error is final, or the attempts are used up.

    Args:
        operation: The operation; cancelling it ends everything, as does cancelling this.
        policy: Number of attempts and their waits. Its ``max_age_s``, if set, bounds the time in which
            another try may begin.
        pacing: Randomness and time.
        is_retryable: Returns whether an error is worth another try.
    """
    began, delays = pacing.now(), list[float]()
    while True:
        error: Exception | None = None
        data: T | None = None
        try:
            data = await operation()
        except Exception as raised:
            error = raised
        attempts, total_s = len(delays) + 1, pacing.now() - began
        if error is not None and attempts < policy.max_attempts and is_retryable(error):
            previous_s = delays[-1] if delays else 0.0
            wait_s = delay_s(policy, attempts, pacing.sample(), previous_s=previous_s)
            if policy.max_age_s is None or total_s + wait_s < policy.max_age_s:
                delays.append(wait_s)
                await pacing.sleep(wait_s)
                continue
        return Executed(
            success=error is None,
            attempts=attempts,
            data=data,
            error=error,
            delays_s=tuple(delays),
            total_s=total_s,
        )
