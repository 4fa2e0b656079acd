"""Decide what becomes of a delivery after one attempt.

Data flow: Outcome, Situation -> :func:`decide` (``outcomes`` holds the meaning of each answer, ``policy`` the
waits) -> Verdict with its wait -> flow.deliver.fan_out -> flow.base.outbox, which chooses the rung.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from consumer.core.model import Control, Defer, Delivered, Drop, Outcome, Park, ParkReason, Retry, Verdict
from consumer.core.retry.outcomes import OUR_FAULTS, StatusRule, is_success, rule_for
from consumer.core.retry.policy import RetryPolicy, deadline, delay_s, waits_for
from consumer.core.text.retry_after import parse_retry_after

#: The wait after a fault of our own side, ± half; it spends no attempt.
OUR_FAULT_WAIT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that :func:`decide` needs besides the outcome."""

    attempt: int  #: number of the attempt that just ended, 1-based
    policy: RetryPolicy
    arrived_at: float  #: Unix seconds when the event was first taken
    now: float  #: Unix seconds
    sample: float  #: uniform in [0, 1)
    rules: Mapping[str, StatusRule] = field(default_factory=dict)  #: ``on_status`` of the subscription
    expires_at: float | None = None  #: Unix seconds from the producer's ``expiration``
    previous_s: float = 0.0  #: the wait before this attempt
    success_ratio: float = 1.0  #: share of the endpoint's recent attempts that it took
    #: extension of the deadline for a deferral; a failed attempt ends at the deadline itself
    late_s: float = 0.0
    postponed_s: float = 0.0  #: how much later the retry budgets allow a retry
    gone: str | None = None  #: why the endpoint counts as gone for good; None: it does not


def decide(outcome: Outcome, situation: Situation) -> Verdict:
    """Return what becomes of a delivery after one attempt.

    A failure of an endpoint that is gone for good disables its subscription, unless a rule of the
    subscription drops the delivery.

    Source: S1-2, S1-7, S3-4, SW-41; faults 34-40, 52.
    """
    if is_success(outcome):
        return Delivered(disables=outcome.control is Control.DISABLE)
    if outcome.kind in OUR_FAULTS:
        return _defer(situation)
    verdict = _judge(outcome, situation)
    if situation.gone is None or isinstance(verdict, Drop):
        return verdict
    return Park(ParkReason.DISABLED, f"{situation.gone}: {describe(outcome)}", disables=True)


def _defer(situation: Situation) -> Defer:
    """Defer the delivery: the endpoint was never reached, so the policy counts nothing but the time."""
    last = deadline(situation.policy, situation.arrived_at, situation.expires_at, situation.late_s)
    return Defer(min(situation.now + OUR_FAULT_WAIT_S * (0.5 + situation.sample), last))


def _judge(outcome: Outcome, situation: Situation) -> Verdict:
    """Return the verdict on a failure, by the endpoint's own request, then by the rule for its answer."""
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


def _retry(outcome: Outcome, situation: Situation) -> Retry | Park:
    """Return the wait before the next attempt, or park a delivery that has no attempt or no time left."""
    policy = situation.policy
    if policy.transport_only and outcome.status is not None and not _is_named(outcome, situation.rules):
        return Park(ParkReason.PERMANENT, describe(outcome))
    if situation.attempt >= policy.max_attempts:
        return Park(ParkReason.EXHAUSTED, describe(outcome))
    left_s = deadline(policy, situation.arrived_at, situation.expires_at) - situation.now
    if left_s <= 0:
        return Park(ParkReason.EXPIRED, describe(outcome))
    planned_s = delay_s(
        waits_for(policy, outcome.status),
        situation.attempt,
        situation.sample,
        previous_s=situation.previous_s,
        success_ratio=situation.success_ratio,
    )
    asked_s = parse_retry_after(outcome.retry_after, situation.now)
    exact = asked_s is not None and asked_s > planned_s
    wait_s = max(planned_s, asked_s or 0.0) + situation.postponed_s
    # After its deadline a delivery is parked, not sent: it waits no longer than that.
    return Retry(min(wait_s, left_s), exact)


def _is_named(outcome: Outcome, rules: Mapping[str, StatusRule]) -> bool:
    """Return whether the subscription itself has a rule for this status."""
    return str(outcome.status) in rules or f"{(outcome.status or 0) // 100}xx" in rules


def describe(outcome: Outcome) -> str:
    """Return in a few words what happened, never empty: the reason that an operator reads (S1-3)."""
    parts = [f"HTTP {outcome.status}" if outcome.status is not None else outcome.kind.value]
    if outcome.location:
        parts.append(f"Location: {outcome.location}")
    if outcome.detail:
        parts.append(outcome.detail)
    return "; ".join(parts)
