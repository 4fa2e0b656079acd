"""Read from the history which events came lately, and which subscriptions got any of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from consumer.core.errors import LeveretError
from consumer.core.history.records import Query, Step, parted
from consumer.core.subscription.brief import SubscriptionBrief
from consumer.core.text.durations import format_duration
from consumer.core.tools.doctor.subscriptions import Seen
from consumer.edges.history.build import open_history
from consumer.edges.history.history_store import HistoryStore
from consumer.settings import Settings

ROWS: Final = 50_000  #: newest steps that are read; they take half a second
ASKED_MAX: Final = 500  #: subscriptions that are looked up one by one
LEAST_S: Final = 3_600.0  #: a shorter history shows nothing about tenants without events

_EVENTS: Final = (Step.RECEIVED, Step.UNMATCHED)


async def events_seen(settings: Settings, briefs: Sequence[SubscriptionBrief]) -> Seen | None:
    """Return the events that the history contains; None without a history of all events.

    Args:
        settings: The place of the history.
        briefs: The stored subscriptions.
    """
    if settings.history.keep != "all":
        return None
    try:
        history = open_history(settings)
    except LeveretError:  # the store has the same place and reports the fault
        return None
    try:
        return await _seen(history, briefs)
    except LeveretError:
        return None
    finally:
        await history.close()


async def _seen(history: HistoryStore, briefs: Sequence[SubscriptionBrief]) -> Seen:
    steps = await history.steps(Query(limit=ROWS, light=True))
    types: dict[str, set[str]] = {}
    matched: set[str] = set()
    oldest = time.time()
    for row in parted(step.row for step in steps):
        oldest = min(oldest, row.at)
        if row.subscription_id:
            matched.add(row.subscription_id)
        if row.step in _EVENTS and row.type:
            types.setdefault(row.tenant, set()).add(row.type)
    is_whole = len(steps) < ROWS
    reach_s = time.time() - oldest
    if not is_whole:
        matched |= await _matched_before(history, [each.id for each in briefs if each.id not in matched])
    return Seen(
        types=types,
        matched=matched,
        is_whole=is_whole and reach_s >= LEAST_S,
        reach=format_duration(round(reach_s)),
    )


async def _matched_before(history: HistoryStore, ids: Sequence[str]) -> set[str]:
    """Return those subscriptions that have older rows; those that are not looked up count as matched."""
    asked = ids[:ASKED_MAX]
    found = await asyncio.gather(
        *(history.steps(Query(subscription_id=each, limit=1, light=True)) for each in asked)
    )
    return {each for each, rows in zip(asked, found, strict=True) if rows} | set(ids[ASKED_MAX:])
