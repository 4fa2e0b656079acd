"""Find subscriptions that get nothing: those that can match no event, and those that are switched off.

Data flow: stored subscriptions + events that the history saw -> findings.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from consumer.core.subscription.brief import MatchNow, SubscriptionBrief, match_now
from consumer.core.tools.doctor.finding import Check, Finding, names, warning, well

TYPES_SHOWN: Final = 3
_LIKE: Final = 0.75  #: similarity from which one name may be a typing error of the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The events that the history contains."""

    types: Mapping[str, Collection[str]]  #: types of events, by tenant
    matched: Collection[str]  #: ids of subscriptions that got an event or a delivery
    is_whole: bool  #: False: older rows were left out, so a tenant without events may have some
    reach: str  #: the time that it covers, such as ``24 h``


def never_matching(
    briefs: Sequence[SubscriptionBrief], operators: str, operator_types: Collection[str]
) -> Iterator[Finding]:
    """Yield subscriptions that can match no event, whatever is published.

    Args:
        briefs: All subscriptions.
        operators: The reserved tenant, which gets operational events only.
        operator_types: All types of operational events.
    """
    for brief in briefs:
        if brief.enabled and brief.tenant == operators and not _any(brief, operator_types):
            text = f"{_patterns(brief)} matches no type of operational event, and the tenant gets no others"
            yield warning(
                Check.SUBSCRIPTIONS,
                brief.full_name,
                text,
                f"use {', '.join(sorted(operator_types)[:TYPES_SHOWN])} or another such type, or #",
            )


def unmatched_so_far(
    briefs: Sequence[SubscriptionBrief], seen: Seen, operators: str, notices: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield enabled subscriptions that match none of the events that the history contains.

    Args:
        briefs: All subscriptions.
        seen: The events.
        operators: The reserved tenant, which publishers cannot name.
        notices: Types of events that Leveret itself sends to a tenant, and rarely.
    """
    if not seen.types:
        return
    for brief in briefs:
        if not brief.enabled or brief.tenant == operators or brief.id in seen.matched or _any(brief, notices):
            continue
        types = seen.types.get(brief.tenant)
        if types is None:
            if seen.is_whole:
                yield _without_events(brief, seen)
        elif not _any(brief, types):
            yield _other_types(brief, types, seen)


def _without_events(brief: SubscriptionBrief, seen: Seen) -> Finding:
    text = f"no event of the tenant {brief.tenant} came within {seen.reach}"
    near = difflib.get_close_matches(brief.tenant.lower(), [t.lower() for t in seen.types], n=1, cutoff=_LIKE)
    like = [tenant for tenant in seen.types if [tenant.lower()] == near]
    hint = f"; events came for {like[0]}" if like else ""
    remedy = "correct the tenant of the subscription, or the header by which publishers name it"
    return warning(Check.SUBSCRIPTIONS, brief.full_name, text + hint, remedy)


def _other_types(brief: SubscriptionBrief, types: Collection[str], seen: Seen) -> Finding:
    listed = ", ".join(sorted(types)[:TYPES_SHOWN]) + (", …" if len(types) > TYPES_SHOWN else "")
    text = f"{_patterns(brief)} matches none of the types that came within {seen.reach}: {listed}"
    return warning(Check.SUBSCRIPTIONS, brief.full_name, text, "correct its patterns (events)")


def _any(brief: SubscriptionBrief, types: Collection[str]) -> bool:
    return any(match_now(brief, each) in (MatchNow.MATCHES, MatchNow.PAUSED) for each in types)


def _patterns(brief: SubscriptionBrief) -> str:
    return " ".join(brief.events[:TYPES_SHOWN]) + (" …" if len(brief.events) > TYPES_SHOWN else "")


def off_findings(briefs: Sequence[SubscriptionBrief]) -> Iterator[Finding]:
    """Yield subscriptions that are disabled for a reason or paused, and the number of the others."""
    for brief in briefs:
        if not brief.enabled and brief.disabled_reason:
            text = f"is disabled: {brief.disabled_reason}"
            yield warning(Check.SUBSCRIPTIONS, brief.full_name, text, "`leveret subscriptions enable`")
    held = [brief.full_name for brief in briefs if brief.enabled and brief.paused]
    if held:
        yield warning(
            Check.SUBSCRIPTIONS, names(held), "deliveries wait, as it is paused", "`leveret resume`"
        )
    if not briefs:
        text = "no subscription is stored, so every event is dropped as unmatched"
        yield warning(Check.SUBSCRIPTIONS, "the store", text, "`leveret subscriptions apply FILE`")
    else:
        working = sum(brief.enabled and not brief.paused for brief in briefs)
        yield well(Check.SUBSCRIPTIONS, f"{working} of {len(briefs)}", "are enabled and not paused")
