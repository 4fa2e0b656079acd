"""Buckets of tokens: a burst, then the rate, for each key alone."""

from __future__ import annotations

from consumer.web.shared import rates
from consumer.web.shared.rates import RateLimiter


def test_a_burst_then_the_rate() -> None:
    """The answer is 0, or the time until the next token."""
    limiter = RateLimiter(2.0, 3)

    assert [limiter.take("a", 0.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert limiter.take("b", 0.0) == 0
    assert limiter.take("a", 0.5) == 0
    assert limiter.take("a", 0.5) == 0.5
    assert [limiter.take("a", 100.0) for _ in range(4)] == [0, 0, 0, 0.5]


def test_strangers_cannot_fill_the_memory() -> None:
    """The oldest keys are forgotten."""
    limiter = RateLimiter(1.0, 1)

    for number in range(rates.KEYS_MAX + 10):
        limiter.take(str(number), 0.0)

    assert len(limiter._levels) == rates.KEYS_MAX
