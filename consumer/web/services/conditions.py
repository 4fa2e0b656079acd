"""Judge the state of an endpoint from the store and from its last hour.

Data flow: EndpointRow + success of the last hour -> :func:`condition` -> API and pages.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from consumer.core.history.activity import Tally
from consumer.edges.store.rows.endpoints import EndpointRow

DEGRADED_RATIO: Final = 0.95  #: an endpoint with a smaller share of successes is degraded
DEGRADED_ATTEMPTS: Final = 10  #: fewer attempts in the last hour show nothing
FAILING: Final = ("open", "probing", "forced")
ORDER: Final = (*("open", "forced", "probing", "degraded"), *("resting", "paused", "disabled", "well"))
"""Every state, the most serious first."""


class Condition(NamedTuple):
    """The state of an endpoint; times are Unix seconds."""

    state: str  #: one of :data:`ORDER`
    since: float | None = None
    until: float | None = None  #: of a rest
    reason: str = ""


def condition(row: EndpointRow, hour: Tally, now: float) -> Condition:
    """Return the state of an endpoint; the first of several that holds back webhooks wins."""
    breaker = row.state
    if not row.enabled:
        return Condition("disabled", _time(row.disabled_at), None, row.disabled_reason)
    if row.pause is not None:
        scope = row.pause.scope.value
        return Condition("paused", row.pause.since, None, "" if scope == "subscription" else f"of {scope}")
    if breaker is not None and breaker.state in FAILING:
        return Condition(breaker.state, breaker.since, None, breaker.reason)
    if row.held_until > now:
        return Condition("resting", None, row.held_until)
    ratio = hour.success_ratio
    if ratio is not None and hour.attempts >= DEGRADED_ATTEMPTS and ratio < DEGRADED_RATIO:
        return Condition("degraded")
    return Condition("well", None if breaker is None else breaker.since)


def _time(text: str) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None
