"""Run any operation under a retry policy, as webhooks are tried again.

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
    """What became of an operation."""

    success: bool
    attempts: int  #: how often it was tried, at least 1
    data: T | None  #: what it returned; None without success
    error: Exception | None  #: what the last try raised; None with success
    delays_s: tuple[float, ...]  #: the waits between the tries
    total_s: float  #: from the beginning of the first try to the end of the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """Chance and time, injected so that tests own them."""

    sample: Callable[[], float]  #: uniform in [0, 1)
    now: Callable[[], float]  #: seconds that never step back
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def always(_: Exception) -> bool:
    """Say that every error is worth another try."""
    return True


async def execute_with_retry(
    operation: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    pacing: Pacing,
    *,
    is_retryable: Callable[[Exception], bool] = always,
) -> Executed[T]:
    """Try *operation* until it returns, an error is not worth another try, or the attempts are used up.

    Args:
        operation: What to try; cancelling it ends everything, as does cancelling this.
        policy: How often, and with which waits. Its ``max_age_s``, if it is set, bounds the time in which
            another try may begin.
        pacing: Chance and time.
        is_retryable: Says whether an error may pass.
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
