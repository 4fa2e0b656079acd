"""Define retry policies, and compute the wait after each failed attempt.

Data flow: settings or subscription -> RetryPolicy -> :func:`delay_s`, :func:`deadline` -> core.retry.verdict.
N attempts have N-1 waits everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from consumer.core.errors import ConfigError

#: The shortest age limit that a policy gets without ``max_age_s``. Source: S1-15.
MIN_MAX_AGE_S: Final = 86_400.0
#: An age limit is this times the planned schedule: the rest is for jitter and for the requests.
MAX_AGE_FACTOR: Final = 1.2
#: The multipliers of an adaptive policy: while most attempts succeed, and otherwise. Source: S0-10.
ADAPTIVE_MULTIPLIERS: Final = (1.5, 2.5)
#: The recent share of successes above which an adaptive policy takes its first multiplier. Source: S0-10.
ADAPTIVE_RATIO: Final = 0.8
#: A decorrelated wait is at most this times the wait before it. Source: S0-10.
DECORRELATION: Final = 3.0


class Growth(StrEnum):
    """How the formula's waits grow from attempt to attempt."""

    EXPONENTIAL = "exponential"  #: base_s, times the multiplier from attempt to attempt
    LINEAR = "linear"  #: base_s, twice that, three times that, and so on


class Jitter(StrEnum):
    """How waits are spread."""

    SPREAD = "spread"  #: evenly over ± jitter_ratio of the planned wait
    FULL = "full"  #: evenly from 0 to the planned wait
    DECORRELATED = "decorrelated"  #: evenly from base_s to three times the wait before, at most max_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and after which waits a delivery is tried.

    Raises:
        ConfigError: a field is out of its bounds; names the field.
    """

    name: str = "custom"
    max_attempts: int = 5  #: requests in all, first one included; 1 to 1000
    base_s: float = 1.0  #: wait after the first failed attempt; at least 0
    multiplier: float = 2.0  #: each further wait is this times the one before; at least 1
    max_s: float = 60.0  #: longest wait of the formula; at least 0. A fixed schedule is not capped
    jitter_ratio: float = 0.1  #: a wait is spread evenly over ± this share of it; 0 to 1
    jitter_in_cap: bool = False  #: True: the cap holds for the jittered wait (S2-1); False: before jitter
    schedule_s: tuple[float, ...] | None = None  #: waits instead of the formula; the last one repeats
    growth: Growth = Growth.EXPONENTIAL  #: of the formula
    jitter_kind: Jitter = Jitter.SPREAD
    adaptive: bool = False  #: True: the multiplier follows the endpoint's recent successes (S0-10)
    by_status: tuple[tuple[str, RetryPolicy], ...] = ()  #: "429" or "5xx" -> policy whose waits apply (S4-2)
    #: retries to one endpoint per period; further ones are postponed. None: no limit
    budget: int | None = None
    budget_period_s: float = 60.0  #: more than 0
    max_age_s: float | None = None  #: age at which a delivery ends; None: see :func:`max_age_s`
    #: an endpoint that only fails for this long is disabled; 0: never (SW-41)
    disable_after_s: float = 432_000.0
    transport_only: bool = False  #: True: any HTTP status is a result and parks at once (S3-4)

    def __post_init__(self) -> None:
        """Check the bounds."""
        _check("max_attempts", self.max_attempts, 1, 1000)
        _check("base_s", self.base_s, 0, math.inf)
        _check("multiplier", self.multiplier, 1, 1000)
        _check("max_s", self.max_s, 0, math.inf)
        _check("jitter_ratio", self.jitter_ratio, 0, 1)
        _check("disable_after_s", self.disable_after_s, 0, math.inf)
        _check("budget_period_s", self.budget_period_s, 0.001, math.inf)
        if self.budget is not None:
            _check("budget", self.budget, 1, math.inf)
        if self.jitter_kind is Jitter.DECORRELATED and self.schedule_s is not None:
            raise ConfigError("retry.jitter_kind: decorrelated waits follow no schedule; remove one of them")
        if self.max_age_s is not None:
            _check("max_age_s", self.max_age_s, 0, math.inf)
        if self.schedule_s is not None:
            if not self.schedule_s:
                raise ConfigError("retry.schedule_s: the list is empty; leave it out to use the formula")
            for wait_s in self.schedule_s:
                _check("schedule_s", wait_s, 0, math.inf)


def _check(name: str, value: float, low: float, high: float) -> None:
    if not (low <= value <= high and math.isfinite(value)):
        limit = "finite" if high == math.inf else f"at most {high:g}"
        raise ConfigError(f"retry.{name}: {value} must be at least {low:g} and {limit}")


def _policies(*policies: RetryPolicy) -> Mapping[str, RetryPolicy]:
    return MappingProxyType({policy.name: policy for policy in policies})


#: Every named policy. Where two source documents differ, each has its own; the default is S0-1.
POLICIES: Final = _policies(
    # S0-1 and S0-3
    RetryPolicy(name="default"),
    RetryPolicy(name="aggressive", base_s=0.5, max_s=10.0, max_attempts=4),
    RetryPolicy(name="conservative", base_s=2.0, multiplier=3.0, max_s=120.0),
    RetryPolicy(name="linear", base_s=5.0, multiplier=1.0, max_s=5.0, max_attempts=3),
    # S1-1: cap before jitter, 45-75 s from the seventh failure on if there are more attempts; S1-2: five
    RetryPolicy(name="email-gateway", jitter_ratio=0.25),
    # S2-1 and S2-2: jitter inside the cap
    RetryPolicy(name="production", max_s=300.0, jitter_ratio=0.25, jitter_in_cap=True),
    RetryPolicy(
        name="development", max_attempts=3, base_s=0.5, max_s=30.0, jitter_ratio=0.25, jitter_in_cap=True
    ),
    # S3-4: three retries after the first try
    RetryPolicy(name="transport-only", max_attempts=4, jitter_ratio=0.0, transport_only=True),
    # S3-6: "retries" are without the first try, "backoff" is the first wait in seconds
    RetryPolicy(name="high-traffic", max_attempts=3),
    RetryPolicy(name="low-traffic", max_attempts=4),
    RetryPolicy(name="critical", max_attempts=6, base_s=2.0),
    # S4-1: cap of one hour, applied before jitter
    RetryPolicy(name="adr", max_s=3600.0),
    # SW-34: the specification's example (its first "0" is the first attempt), jittered by ±20 % as Svix does
    RetryPolicy(
        name="standard-webhooks",
        max_attempts=10,
        jitter_ratio=0.2,
        schedule_s=(5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0),
    ),
)


def planned_delay_s(policy: RetryPolicy, failed_attempt: int) -> float:
    """Return the wait after a failed attempt before jitter; of a decorrelated or adaptive one the longest.

    Args:
        policy: Of the delivery's subscription.
        failed_attempt: Number of the attempt that just failed, 1-based.

    Source: S0-1: ``base * multiplier ** (attempt - 1)``, capped.
    """
    if failed_attempt < 1:
        raise ValueError(f"attempts are counted from 1, got {failed_attempt}")
    if policy.schedule_s is not None:
        return policy.schedule_s[min(failed_attempt, len(policy.schedule_s)) - 1]
    return min(_grown(policy, failed_attempt, _multiplier(policy, 0.0)), policy.max_s)


def _multiplier(policy: RetryPolicy, success_ratio: float) -> float:
    if policy.jitter_kind is Jitter.DECORRELATED:
        return DECORRELATION
    if policy.adaptive:
        return ADAPTIVE_MULTIPLIERS[0 if success_ratio > ADAPTIVE_RATIO else 1]
    return policy.multiplier


def _grown(policy: RetryPolicy, failed_attempt: int, multiplier: float) -> float:
    """Return the formula's wait before its cap."""
    if policy.jitter_kind is Jitter.DECORRELATED:  # the most it can be: three times the base at first
        failed_attempt += 1
    elif policy.growth is Growth.LINEAR:
        return policy.base_s * failed_attempt
    try:
        return policy.base_s * multiplier ** (failed_attempt - 1)
    except OverflowError:
        return math.inf if policy.base_s else 0.0


def delay_s(
    policy: RetryPolicy,
    failed_attempt: int,
    sample: float,
    *,
    previous_s: float = 0.0,
    success_ratio: float = 1.0,
) -> float:
    """Return the wait after a failed attempt, jittered and rounded to whole milliseconds.

    Args:
        policy: Of the delivery's subscription.
        failed_attempt: Number of the attempt that just failed, 1-based.
        sample: Uniform in [0, 1); evenly spread over the whole range, so that deliveries that fail
            together do not come back together (S4-3).
        previous_s: The wait before that attempt; only decorrelated waits look at it.
        success_ratio: Share of the endpoint's recent attempts that it took; only adaptive ones look at it.

    Source: S0-1, S1-1, S4-1 (cap before jitter); S2-1 (jitter inside the cap); S0-10.
    """
    planned = planned_delay_s(policy, failed_attempt)
    if policy.jitter_kind is Jitter.DECORRELATED:
        low = min(policy.base_s, policy.max_s)
        before = min(max(previous_s, policy.base_s), planned / DECORRELATION)
        return round(low + sample * max(0.0, min(before * DECORRELATION, policy.max_s) - low), 3)
    if policy.adaptive and policy.schedule_s is None:
        planned = min(_grown(policy, failed_attempt, _multiplier(policy, success_ratio)), policy.max_s)
    if policy.jitter_kind is Jitter.FULL:
        return round(planned * sample, 3)
    jittered = planned * (1 + policy.jitter_ratio * (2 * sample - 1))
    if policy.jitter_in_cap and policy.schedule_s is None:
        jittered = min(jittered, policy.max_s)
    return round(jittered, 3)


def wait_bounds_s(policy: RetryPolicy, failed_attempt: int) -> tuple[float, float]:
    """Return the shortest and the longest wait that :func:`delay_s` may give, in seconds."""
    planned = planned_delay_s(policy, failed_attempt)
    if policy.jitter_kind is Jitter.DECORRELATED:
        return min(policy.base_s, policy.max_s), planned
    low, high = 0.0, planned
    if policy.jitter_kind is Jitter.SPREAD:
        least = planned
        if policy.adaptive and policy.schedule_s is None:
            least = min(_grown(policy, failed_attempt, _multiplier(policy, 1.0)), policy.max_s)
        low, high = least * (1 - policy.jitter_ratio), planned * (1 + policy.jitter_ratio)
        if policy.jitter_in_cap and policy.schedule_s is None:
            high = min(high, policy.max_s)
    return low, high


def waits_for(policy: RetryPolicy, status: int | None) -> RetryPolicy:
    """Return the policy whose waits count after *status*: the one for it or its class, or *policy* itself."""
    if not policy.by_status or status is None:
        return policy
    own = dict(policy.by_status)
    return own.get(str(status)) or own.get(f"{status // 100}xx") or policy


def planned_delays_s(policy: RetryPolicy) -> tuple[float, ...]:
    """Return every wait of the policy before jitter: one less than its attempts (S0-2)."""
    return tuple(planned_delay_s(policy, failed) for failed in range(1, policy.max_attempts))


def total_delay_s(policy: RetryPolicy) -> float:
    """Return the sum of all planned waits, without those of single statuses."""
    return math.fsum(planned_delays_s(policy))


@lru_cache(4096)
def max_age_s(policy: RetryPolicy) -> float:
    """Return the age at which a delivery ends: as set, else 24 h or 1.2 x the whole schedule if longer."""
    if policy.max_age_s is not None:
        return policy.max_age_s
    longest_s = max(total_delay_s(each) for each in (policy, *(own for _, own in policy.by_status)))
    return max(MIN_MAX_AGE_S, MAX_AGE_FACTOR * longest_s)


def deadline(
    policy: RetryPolicy, arrived_at: float, expires_at: float | None = None, late_s: float = 0.0
) -> float:
    """Return the moment, in Unix seconds, from which a delivery is parked as expired.

    Args:
        policy: Of the delivery's subscription.
        arrived_at: When the event was first taken, Unix seconds.
        expires_at: The producer's ``expiration`` as Unix seconds; None is never (fault 19).
        late_s: So much longer it may live, for one more try; the producer's word counts all the same.
    """
    limit = arrived_at + max_age_s(policy) + late_s
    return limit if expires_at is None else min(limit, expires_at)
