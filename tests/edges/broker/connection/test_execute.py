"""Any operation under a retry policy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from consumer.core.retry.policy import RetryPolicy
from consumer.edges.broker.connection.execute import Executed, Pacing, execute_with_retry

POLICY = RetryPolicy(max_attempts=4, base_s=1.0, jitter_ratio=0.1)


class Time:
    """Time that only passes in waits and in operations."""

    def __init__(self) -> None:
        self.now = 50.0
        self.pacing = Pacing(sample=lambda: 0.5, now=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def failing(time: Time, times: int) -> Callable[[], Awaitable[str]]:
    """Return an operation that takes 0.25 s and fails so often before it returns."""
    left = [times]

    async def operation() -> str:
        await time.sleep(0.25)
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(f"{left[0]} to go")
        return "done"

    return operation


@pytest.mark.parametrize("failures", [0, 1, 3])
async def test_says_how_it_went(failures: int) -> None:
    """S0-5: success, attempts, data, the waits used and the whole time."""
    time = Time()

    result = await execute_with_retry(failing(time, failures), POLICY, time.pacing)

    waits = (1.0, 2.0, 4.0)[:failures]
    assert result == Executed(
        success=True,
        attempts=failures + 1,
        data="done",
        error=None,
        delays_s=waits,
        total_s=sum(waits) + 0.25 * (failures + 1),
    )


async def test_gives_up_after_the_last_attempt() -> None:
    """S0-5, S0-2: N attempts, N-1 waits, and the last error."""
    time = Time()

    result = await execute_with_retry(failing(time, 99), POLICY, time.pacing)

    assert (result.success, result.attempts, result.delays_s) == (False, 4, (1.0, 2.0, 4.0))
    assert str(result.error) == "95 to go"
    assert result.data is None


async def test_an_error_that_cannot_pass_ends_it() -> None:
    """S1-2: a permanent error is not tried again."""
    time = Time()

    result = await execute_with_retry(
        failing(time, 99), POLICY, time.pacing, is_retryable=lambda error: "98" not in str(error)
    )

    assert (result.success, result.attempts, result.delays_s) == (False, 1, ())


async def test_age_ends_it() -> None:
    """S1-15: no try begins after max_age_s."""
    time = Time()
    policy = RetryPolicy(max_attempts=4, jitter_ratio=0.0, max_age_s=3.0)

    result = await execute_with_retry(failing(time, 99), policy, time.pacing)

    assert result.delays_s == (1.0,)
    assert time.now - 50.0 <= 3.0


async def test_cancelling_ends_it_at_once() -> None:
    """CancelledError always passes."""

    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await execute_with_retry(cancelled, POLICY, Time().pacing)
