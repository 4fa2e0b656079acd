"""Explain to a person why a subscription gets an event or not; this needs no secrets.

Data flow: store -> :class:`SubscriptionBrief` -> :func:`match_now` -> ``leveret trace``, ``leveret publish``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from consumer.core.subscription.wildcards import Wildcards


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionBrief:
    """The part of a stored subscription that decides whether it gets an event."""

    id: str
    tenant: str
    name: str
    events: Sequence[str]  #: AMQP topic patterns on the event type
    enabled: bool = True
    disabled_reason: str = ""
    paused: bool = False

    @property
    def full_name(self) -> str:
        """Return ``tenant/name``."""
        return f"{self.tenant}/{self.name}"


class MatchNow(StrEnum):
    """Whether a subscription, as it is now, gets an event."""

    MATCHES = "matches"
    PAUSED = "paused"  #: it matches, and its deliveries wait
    DISABLED = "disabled"
    PATTERN = "pattern"  #: none of its patterns matches the type


def match_now(brief: SubscriptionBrief, event_type: str) -> MatchNow:
    """Return whether the subscription gets events of *event_type*, or the first reason against it."""
    if not brief.enabled:
        return MatchNow.DISABLED
    if not Wildcards(brief.events).matching(event_type.split(".")):
        return MatchNow.PATTERN
    return MatchNow.PAUSED if brief.paused else MatchNow.MATCHES


def any_matches(briefs: Iterable[SubscriptionBrief], event_type: str) -> bool:
    """Return whether an event of *event_type* is matched; deliveries of paused subscriptions count."""
    return any(match_now(brief, event_type) in (MatchNow.MATCHES, MatchNow.PAUSED) for brief in briefs)
