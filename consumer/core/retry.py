"""Choose whether and when a delivery is tried again.

Data flow: Outcome -> :func:`decide` (core.classify says what it means) -> Verdict with its wait ->
topology.choose_rung -> flow publishes. N attempts have N-1 delays everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from consumer.core.classify import StatusRule, breaker_counts, is_success, rule_for
from consumer.core.errors import ConfigError
from consumer.core.model import (
    Control,
    Defer,
    Delivered,
    Drop,
    Kind,
    Outcome,
    Park,
    ParkReason,
    Retry,
    Verdict,
)

__all__ = [
    "POLICIES",
    "RETRY_AFTER_MAX_S",
    "RetryPolicy",
    "Situation",
    "StatusRule",
    "breaker_counts",
    "deadline",
    "decide",
    "delay_s",
    "max_age_s",
    "parse_retry_after",
    "planned_delays_s",
    "total_delay_s",
]

#: No endpoint can make us wait longer than this. Source: FAULTS 39.
RETRY_AFTER_MAX_S: Final = 86_400.0
#: A delivery lives at least this long. Source: ARCHITECTURE, REQUIREMENTS S1-15.
MIN_MAX_AGE_S: Final = 86_400.0
#: While our own egress proxy fails, a delivery looks again after this long, ± half, and spends no attempt.
PROXY_WAIT_S: Final = 10.0
#: Room for jitter and for the requests themselves over the planned schedule. Source: ARCHITECTURE.
MAX_AGE_FACTOR: Final = 1.2


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
    jitter_in_cap: bool = False  #: True: the formula's jittered wait is capped too (S2-1), else it may pass
    schedule_s: tuple[float, ...] | None = None  #: waits instead of the formula; the last one repeats
    max_age_s: float | None = None  #: age at which a delivery ends; None: see :func:`max_age_s`
    transport_only: bool = False  #: True: any HTTP status is a result and parks at once (S3-4)

    def __post_init__(self) -> None:
        """Check the bounds."""
        _check("max_attempts", self.max_attempts, 1, 1000)
        _check("base_s", self.base_s, 0, math.inf)
        _check("multiplier", self.multiplier, 1, 1000)
        _check("max_s", self.max_s, 0, math.inf)
        _check("jitter_ratio", self.jitter_ratio, 0, 1)
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
    # S1-1: cap before jitter, 45-75 s from the seventh failure on
    RetryPolicy(name="email-gateway", max_attempts=8, jitter_ratio=0.25),
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
    """Return the wait after a failed attempt before jitter.

    Args:
        policy: Of the delivery's subscription.
        failed_attempt: Number of the attempt that just failed, 1-based.

    Source: REQUIREMENTS S0-1: ``base * multiplier ** (attempt - 1)``, capped.
    """
    if failed_attempt < 1:
        raise ValueError(f"attempts are counted from 1, got {failed_attempt}")
    if policy.schedule_s is not None:
        return policy.schedule_s[min(failed_attempt, len(policy.schedule_s)) - 1]
    try:
        grown = policy.base_s * policy.multiplier ** (failed_attempt - 1)
    except OverflowError:
        grown = math.inf if policy.base_s else 0.0
    return min(grown, policy.max_s)


def delay_s(policy: RetryPolicy, failed_attempt: int, sample: float) -> float:
    """Return the wait after a failed attempt, jittered and rounded to whole milliseconds.

    Args:
        policy: Of the delivery's subscription.
        failed_attempt: Number of the attempt that just failed, 1-based.
        sample: Uniform in [0, 1); evenly spread over the whole ± range, so that deliveries that fail
            together do not come back together (S4-3).

    Source: REQUIREMENTS S0-1, S1-1, S4-1 (cap before jitter); S2-1 (jitter inside the cap).
    """
    planned = planned_delay_s(policy, failed_attempt)
    jittered = planned * (1 + policy.jitter_ratio * (2 * sample - 1))
    if policy.jitter_in_cap and policy.schedule_s is None:
        jittered = min(jittered, policy.max_s)
    return round(jittered, 3)


def planned_delays_s(policy: RetryPolicy) -> tuple[float, ...]:
    """Return every wait of the policy before jitter: one less than its attempts (S0-2)."""
    return tuple(planned_delay_s(policy, failed) for failed in range(1, policy.max_attempts))


def total_delay_s(policy: RetryPolicy) -> float:
    """Return the sum of all planned waits."""
    return math.fsum(planned_delays_s(policy))


@lru_cache(4096)
def max_age_s(policy: RetryPolicy) -> float:
    """Return the age at which a delivery ends: as set, else 24 h or 1.2 x the whole schedule if longer."""
    if policy.max_age_s is not None:
        return policy.max_age_s
    return max(MIN_MAX_AGE_S, MAX_AGE_FACTOR * total_delay_s(policy))


def deadline(policy: RetryPolicy, arrived_at: float, expires_at: float | None = None) -> float:
    """Return the moment, in Unix seconds, from which a delivery is parked as expired.

    Args:
        policy: Of the delivery's subscription.
        arrived_at: When the event was first taken, Unix seconds.
        expires_at: What the producer's ``expiration`` says, Unix seconds; None is never (FAULTS 19).
    """
    limit = arrived_at + max_age_s(policy)
    return limit if expires_at is None else min(limit, expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that :func:`decide` needs to know besides the outcome."""

    attempt: int  #: number of the attempt that just ended, 1-based
    policy: RetryPolicy
    arrived_at: float  #: Unix seconds when the event was first taken
    now: float  #: Unix seconds
    sample: float  #: uniform in [0, 1)
    rules: Mapping[str, StatusRule] = field(default_factory=dict)  #: ``on_status`` of the subscription
    expires_at: float | None = None  #: Unix seconds from the producer's ``expiration``


def decide(outcome: Outcome, situation: Situation) -> Verdict:
    """Return what becomes of a delivery after one attempt.

    Source: REQUIREMENTS S1-2, S1-7, S3-4; FAULTS 34-40, 52.
    """
    if is_success(outcome):
        return Delivered(disables=outcome.control is Control.DISABLE)
    if outcome.kind is Kind.PROXY:
        return _wait_for_proxy(situation)
    match outcome.control:
        case Control.DISABLE:
            return Park(ParkReason.DISABLED, f"webhook-delivery: disable; {describe(outcome)}", disables=True)
        case Control.ABORT_MESSAGE:
            return Park(ParkReason.PERMANENT, f"webhook-delivery: abort-message; {describe(outcome)}")
        case None:
            pass
    match rule_for(outcome, situation.rules):
        case StatusRule.DISABLE:
            return Park(ParkReason.DISABLED, describe(outcome), disables=True)
        case StatusRule.PARK:
            return Park(ParkReason.PERMANENT, describe(outcome))
        case StatusRule.DROP:
            return Drop(describe(outcome))
        case StatusRule.RETRY:
            return _retry(outcome, situation)


def _wait_for_proxy(situation: Situation) -> Defer:
    """Put it off: the endpoint was never reached, so nothing of its policy is used up but time."""
    last = deadline(situation.policy, situation.arrived_at, situation.expires_at)
    return Defer(min(situation.now + PROXY_WAIT_S * (0.5 + situation.sample), last))


def _retry(outcome: Outcome, situation: Situation) -> Verdict:
    policy = situation.policy
    if policy.transport_only and outcome.status is not None and not _named(outcome, situation.rules):
        return Park(ParkReason.PERMANENT, describe(outcome))
    if situation.attempt >= policy.max_attempts:
        return Park(ParkReason.EXHAUSTED, describe(outcome))
    left_s = deadline(policy, situation.arrived_at, situation.expires_at) - situation.now
    if left_s <= 0:
        return Park(ParkReason.EXPIRED, describe(outcome))
    planned_s = delay_s(policy, situation.attempt, situation.sample)
    asked_s = parse_retry_after(outcome.retry_after, situation.now)
    exact = asked_s is not None and asked_s > planned_s
    wait_s = max(planned_s, asked_s or 0.0)
    # Past the deadline nothing is sent any more: it waits until then and is parked when it comes back.
    return Retry(min(wait_s, left_s), exact)


def _named(outcome: Outcome, rules: Mapping[str, StatusRule]) -> bool:
    """Say whether the subscription itself has a rule for this status."""
    return str(outcome.status) in rules or f"{(outcome.status or 0) // 100}xx" in rules


def describe(outcome: Outcome) -> str:
    """Say in a few words what happened, never empty: the reason that an operator reads (S1-3)."""
    parts = [f"HTTP {outcome.status}" if outcome.status is not None else outcome.kind.value]
    if outcome.location:
        parts.append(f"Location: {outcome.location}")
    if outcome.detail:
        parts.append(outcome.detail)
    return "; ".join(parts)


#: Several Retry-After headers arrive joined by commas, and an HTTP date holds one itself.
_RETRY_AFTER_PART: Final = re.compile(r"\s*((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,[^,]*|[^,]+)")
_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?")


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Return the wait that a ``Retry-After`` header asks for, or None when it asks for none.

    Args:
        value: The header as received, seconds or an HTTP date. Of several joined by commas the longest
            wait counts, so that nothing is ever sent earlier than asked; garbage is ignored.
        now: Unix seconds.

    Returns:
        Whole seconds, rounded up, from 0 to :data:`RETRY_AFTER_MAX_S`.

    Source: RFC 9110 10.2.3; FAULTS 39.
    """
    if not value:
        return None
    waits = (_one_retry_after(part.strip(), now) for part in _RETRY_AFTER_PART.findall(value))
    return max((wait for wait in waits if wait is not None), default=None)


def _one_retry_after(text: str, now: float) -> float | None:
    if _SECONDS.fullmatch(text):
        return float(math.ceil(min(float(text), RETRY_AFTER_MAX_S)))
    if not text[:1].isalpha():  # an HTTP date starts with the name of its day
        return None
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:  # the obsolete asctime form names no zone; all HTTP dates are GMT
            moment = moment.replace(tzinfo=UTC)
        wait_s = moment.timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return float(math.ceil(min(max(wait_s, 0.0), RETRY_AFTER_MAX_S)))
