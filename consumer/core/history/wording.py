"""Describe rows of the history, for people and for programs. All text is safe on a terminal.

Data flow: :class:`HistoryRow` -> :func:`describe` or :func:`as_dict` -> ``leveret trace``, ``leveret tail``.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from consumer.core.history.records import HistoryRow, Step, chosen_wait_s
from consumer.core.history.status import waits_until
from consumer.core.text.durations import format_duration
from consumer.core.text.printable import printable
from consumer.core.text.rfc3339 import MAX_MS, from_ms

EXCERPT_CHARS: Final = 160  #: characters that people see of an answer


class Tone(StrEnum):
    """How a step is coloured on a terminal."""

    GOOD = "good"
    BAD = "bad"
    WAIT = "wait"
    PLAIN = "plain"


class Described(NamedTuple):
    """A step in words."""

    label: str  #: such as ``attempt 2``
    text: str
    tone: Tone


def describe(row: HistoryRow) -> Described:
    """Return a step in words, without its time and its ids."""
    reason, detail = printable(row.reason), printable(row.detail)
    match row.step:
        case Step.RECEIVED:
            return Described("received", f"{counted(row.number, 'subscription')} matched", Tone.PLAIN)
        case Step.UNMATCHED:
            return Described("unmatched", "no enabled subscription wanted it", Tone.BAD)
        case Step.SETTLED:
            return Described("settled", "each delivery has ended, or the broker has stored it", Tone.PLAIN)
        case Step.ATTEMPT:
            return _attempt(row, reason, detail)
        case Step.DEFERRED:
            return Described("deferred", f"{reason or 'not now'}, {_wait(row)}", Tone.WAIT)
        case Step.PARKED:
            made = f" after {counted(row.number, 'attempt')}" if row.number else ""
            return Described("parked", _joined(f"{reason}{made}", detail), Tone.BAD)
        case Step.CANCELLED:
            return Described("cancelled", detail or reason or "nothing more is owed", Tone.PLAIN)
        case Step.REPLAYED:
            age = "" if row.wait_ms is None else f", parked for {span(row.wait_ms / 1000)}"
            return Described("replayed", f"on its way again{age}", Tone.WAIT)
        case _:
            return Described(printable(row.step), _joined(reason, detail), Tone.PLAIN)


def _attempt(row: HistoryRow, reason: str, detail: str) -> Described:
    result = printable(row.kind) if row.status is None else str(row.status)
    if row.latency_ms is not None:
        result += f" in {span(row.latency_ms / 1000)}"
    ends = {"delivered": "delivered", "park": "given up", "drop": "ended by a rule"}
    tone = {"delivered": Tone.GOOD, "retry": Tone.WAIT, "defer": Tone.WAIT}.get(row.reason, Tone.BAD)
    then = ends.get(row.reason) or f"{reason}, {_wait(row)}"
    return Described(f"attempt {row.number}", _joined(f"{result}, {then}", detail), tone)


def _wait(row: HistoryRow) -> str:
    until = waits_until(row)
    if until is None or row.wait_ms is None:
        return "at a time that is not recorded"
    return f"waits {span(row.wait_ms / 1000)}, until {clock(until)}"


def _joined(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 attempt, 2 attempts."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def span(seconds: float) -> str:
    """Return a duration for people, rounded: 12 ms, 1.5 s, 2 min 5 s."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return format_duration(round(seconds, 1) if seconds < 60 else round(seconds))


def clock(at: float) -> str:
    """Return Unix seconds as a time in UTC, rounded as by :func:`timestamp`: 2026-01-02 03:04:05.678."""
    try:
        return datetime.fromtimestamp(round(at * 1000) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return f"at {at:g}"


def timestamp(at: float) -> str | None:
    """Return Unix seconds as RFC 3339; None outside of its range."""
    ms = at * 1000
    return from_ms(round(ms)) if 0 <= ms <= MAX_MS else None


def excerpt(row: HistoryRow) -> str:
    """Return the first characters of the answer on one line, after its content type; empty if it has none."""
    if not row.answer:
        return ""
    text = " ".join(row.answer.decode("utf-8", "backslashreplace").split())
    shown = printable(text[:EXCERPT_CHARS])
    kind = f"{printable(row.answer_type)}: " if row.answer_type else ""
    return f"{kind}{shown}{' …' if len(text) > EXCERPT_CHARS else ''}"


def as_dict(row: HistoryRow) -> dict[str, object]:
    """Return a row with stable field names, times in RFC 3339 and durations in seconds."""
    until = waits_until(row)
    return {
        "at": timestamp(row.at),
        "step": row.step,
        "event_id": row.event_id,
        "tenant": row.tenant,
        "type": row.type,
        "subscription_id": row.subscription_id or None,
        "number": row.number,
        "kind": row.kind or None,
        "status": row.status,
        "latency_s": None if row.latency_ms is None else row.latency_ms / 1000,
        "wait_s": chosen_wait_s(row),
        "until": None if until is None else timestamp(until),
        "reason": row.reason or None,
        "detail": row.detail or None,
        **_answer(row),
    }


def _answer(row: HistoryRow) -> Mapping[str, object]:
    """Return the answer as text if it is UTF-8, perhaps cut within a character, else in base64."""
    fields: dict[str, object] = {
        "answer": None,
        "answer_base64": None,
        "answer_type": row.answer_type or None,
    }
    if row.answer is not None:
        try:
            fields["answer"] = codecs.getincrementaldecoder("utf-8")().decode(row.answer)
        except UnicodeDecodeError:
            fields["answer_base64"] = base64.b64encode(row.answer).decode()
    return fields
