"""Read a trace that :mod:`consumer.core.operate.trace_as_dict` has written, as a remote command line does.

Data flow: JSON of the API -> :func:`event_from_dict` -> EventTrace, with times in whole milliseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from consumer.core.history.records import HistoryRow
from consumer.core.history.status import DeliveryState, DeliveryStatus
from consumer.core.history.trace import DeliveryTrace, EventKey, EventTrace, Miss, ParkedNow
from consumer.core.subscription.brief import MatchNow, SubscriptionBrief
from consumer.core.text.rfc3339 import parse_ms


def event_from_dict(shown: Mapping[str, Any]) -> EventTrace:
    """Return the trace that *shown* describes.

    Raises:
        KeyError, ValueError, TypeError: a field is missing or not valid.
    """
    key = EventKey(shown["event_id"], shown["tenant"] or "", shown["type"])
    return EventTrace(
        key=key,
        rows=[_row(each) for each in shown["steps"]],
        deliveries=[_delivery(each) for each in shown["deliveries"]],
        misses=[_miss(each, key.tenant) for each in shown["without_delivery"]],
        missing=shown["matched_without_step"],
    )


def _delivery(shown: Mapping[str, Any]) -> DeliveryTrace:
    until, target = shown["until"], shown["subscription_id"] or ""
    since = _at(shown["since"])
    return DeliveryTrace(
        subscription_id=target,
        name=shown["subscription"] or "",
        state=DeliveryState(DeliveryStatus(shown["status"]), since, None if until is None else _at(until)),
        rows=[_row(each) for each in shown["steps"]],
        parked=None
        if shown["parked_entry"] is None
        else ParkedNow(
            entry_id=shown["parked_entry"],
            subscription_id=target,
            reason=shown["parked_reason"],
            detail=shown["parked_detail"],
            attempts=shown["attempts"],
            parked_at=since,
            expires_at=_at(shown["parked_until"]),
        ),
        waiting=None,
    )


def _row(shown: Mapping[str, Any]) -> HistoryRow:
    target, latency, wait = shown["subscription_id"] or "", shown["latency_s"], shown["wait_s"]
    return HistoryRow(
        at=_at(shown["at"]),
        step=shown["step"],
        event_id=shown["event_id"],
        tenant=shown["tenant"],
        type=shown["type"],
        subscription_id=target,
        number=shown["number"],
        kind=shown["kind"] or "",
        status=shown["status"],
        latency_ms=None if latency is None else latency * 1000,
        wait_ms=None if wait is None else wait * 1000,
        reason=shown["reason"] or "",
        detail=shown["detail"] or "",
        answer=_answer(shown),
        answer_type=shown["answer_type"] or "",
    )


def _answer(shown: Mapping[str, Any]) -> bytes | None:
    if shown["answer_base64"] is not None:
        return base64.b64decode(shown["answer_base64"])
    text: str | None = shown["answer"]
    return None if text is None else text.encode()


def _miss(shown: Mapping[str, Any], tenant: str) -> Miss:
    match = MatchNow(shown["match_now"])
    brief = SubscriptionBrief(
        id=shown["subscription_id"],
        tenant=tenant,
        name=str(shown["subscription"]).partition("/")[2],
        events=tuple(shown["events"]),
        enabled=match is not MatchNow.DISABLED,
        disabled_reason=shown["disabled_reason"] or "",
        paused=match is MatchNow.PAUSED,
    )
    return Miss(brief, match)


def _at(text: str | None) -> float:
    return (parse_ms(text or "") or 0) / 1000
