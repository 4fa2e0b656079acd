"""Compute the time of each attempt of a retry policy, and draw the attempts as one line of text.

Data flow: RetryPolicy -> steps -> draw -> one line of text; policy_as_dict -> JSON.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate
from typing import Final, NamedTuple

from consumer.core.retry.policy import (
    Growth,
    Jitter,
    RetryPolicy,
    max_age_s,
    planned_delays_s,
    total_delay_s,
    wait_bounds_s,
)
from consumer.core.text.durations import format_duration

ATTEMPT: Final = "●"
LINE: Final = "─"
#: The scale is logarithmic where the longest wait is more than this times the shortest one.
LONG: Final = 50
#: The shortest wait is drawn as at least this part of the whole.
SHORTEST: Final = 1e-9


class Step(NamedTuple):
    """One attempt of a delivery that always fails."""

    attempt: int  #: 1-based
    wait_s: float  #: planned wait before it; 0 for the first
    wait_min_s: float  #: with the least jitter
    wait_max_s: float  #: with the most
    at_s: float  #: since the first attempt, as planned


def steps(policy: RetryPolicy) -> Sequence[Step]:
    """Return every attempt of *policy*; a request counts as taking no time (S0-2)."""
    delays = planned_delays_s(policy)
    starts = accumulate(delays, initial=0.0)
    waits = [(0.0, 0.0, 0.0)]
    for failed, delay in enumerate(delays, start=1):
        low_s, high_s = wait_bounds_s(policy, failed)
        waits.append((delay, round(low_s, 3), round(high_s, 3)))
    return [
        Step(number, *wait, at) for number, (wait, at) in enumerate(zip(waits, starts, strict=True), start=1)
    ]


def draw(policy: RetryPolicy, width: int) -> str:
    """Return the attempts of *policy* on one line from 0 to the end: ``●──●────●────────●``.

    A policy whose longest wait is over 50 times its shortest is drawn on a logarithmic scale. Attempts
    that fall on one column are one mark.

    Args:
        policy: What to draw.
        width: Columns, at least 2.
    """
    columns = {round(share * (width - 1)) for share in _shares(policy)}
    return "".join(ATTEMPT if column in columns else LINE for column in range(max(columns) + 1))


def is_logarithmic(policy: RetryPolicy) -> bool:
    """Return whether :func:`draw` uses a logarithmic scale."""
    waits = [wait for wait in planned_delays_s(policy) if wait > 0]
    return bool(waits) and max(waits) > LONG * min(waits)


def _shares(policy: RetryPolicy) -> Sequence[float]:
    """Place the attempts on a scale from 0 to 1."""
    moments = [step.at_s for step in steps(policy)]
    last = moments[-1]
    if last <= 0:
        return [0.0 for _ in moments]
    if not is_logarithmic(policy):
        return [moment / last for moment in moments]
    unit = max(next(moment for moment in moments if moment > 0), last * SHORTEST)
    return [math.log1p(moment / unit) / math.log1p(last / unit) for moment in moments]


def summary(policy: RetryPolicy) -> str:
    """Describe *policy* in one line (S0-6)."""
    count = f"{policy.max_attempts} attempt{'s' if policy.max_attempts != 1 else ''}"
    spread = f"±{policy.jitter_ratio:.0%}" if policy.jitter_ratio else "no jitter"
    if policy.jitter_kind is not Jitter.SPREAD:
        spread = f"{policy.jitter_kind.value} jitter"
    return f"{count} in {format_duration(total_delay_s(policy))}: {_growth(policy)}, {spread}"


def _growth(policy: RetryPolicy) -> str:
    if policy.schedule_s is not None:
        return "fixed waits"
    base, cap = format_duration(policy.base_s), format_duration(policy.max_s)
    if policy.growth is Growth.LINEAR:
        return f"{base} more each time up to {cap}"
    factor = "1.5 to 2.5" if policy.adaptive else f"{policy.multiplier:g}"
    return f"{base} x{factor} up to {cap}"


def policy_as_dict(policy: RetryPolicy) -> dict[str, object]:
    """Return all fields of *policy*, and the numbers that follow from them."""
    own = {each.name: getattr(policy, each.name) for each in fields(policy)}
    own["by_status"] = {
        status: {"delays_s": planned_delays_s(waits), "summary": summary(waits)}
        for status, waits in policy.by_status
    }
    planned = steps(policy)
    return {
        **own,
        "max_age_s": max_age_s(policy),
        "delays_s": [step.wait_s for step in planned[1:]],
        "delays_min_s": [step.wait_min_s for step in planned[1:]],
        "delays_max_s": [step.wait_max_s for step in planned[1:]],
        "cumulative_s": [step.at_s for step in planned],
        "total_s": total_delay_s(policy),
        "summary": summary(policy),
    }
