"""Steps in words; every answer of an endpoint is harmless on a terminal (fault 51)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.history.records import HistoryRow
from consumer.core.history.wording import EXCERPT_CHARS, as_dict, clock, describe, excerpt

NOW = 1_767_225_600.0


def row(step: str = "attempt", **more: Any) -> HistoryRow:
    """A step at the first second of 2026."""
    return HistoryRow(at=NOW, step=step, event_id="ord-1", **more)


@pytest.mark.parametrize(
    ("given_row", "words"),
    [
        (row("received", number=2), "received: 2 subscriptions matched"),
        (row("unmatched"), "unmatched: no enabled subscription wanted it"),
        (
            row(number=1, status=503, latency_ms=12.0, reason="retry", wait_ms=1_500.0, detail="busy"),
            "attempt 1: 503 in 12 ms, retry, waits 1.5 s, until 2026-01-01 00:00:01.512: busy",
        ),
        (
            row(number=3, status=200, latency_ms=1_234.0, reason="delivered"),
            "attempt 3: 200 in 1.2 s, delivered",
        ),
        (row(number=5, kind="dns", reason="park"), "attempt 5: dns, given up"),
        (
            row("deferred", reason="breaker", wait_ms=90_000.0),
            "deferred: breaker, waits 1 min 30 s, until 2026-01-01 00:01:30.000",
        ),
        (
            row("parked", number=1, reason="exhausted", detail="HTTP 503"),
            "parked: exhausted after 1 attempt: HTTP 503",
        ),
        (row("cancelled", detail="deleted"), "cancelled: deleted"),
        (row("replayed", wait_ms=60_000.0), "replayed: on its way again, parked for 1 min"),
    ],
)
def test_a_step_in_words(given_row: HistoryRow, words: str) -> None:
    """Each kind of step names its result, its wait and its reason."""
    said = describe(given_row)
    assert f"{said.label}: {said.text}" == words


@given(st.binary(max_size=512), st.text(max_size=40), st.text(max_size=40))
def test_hostile_text_is_escaped(answer: bytes, detail: str, kind: str) -> None:
    """Fault 51: an answer, its content type and a detail control no terminal, and take one line."""
    hostile = row(answer=answer, answer_type=kind, detail=detail, reason="retry", kind=kind)
    shown = [
        excerpt(hostile),
        describe(hostile).text,
        describe(row("parked", reason=kind, detail=detail)).text,
    ]
    assert all(text.isprintable() for text in shown)
    assert len(excerpt(row(answer=answer))) <= EXCERPT_CHARS * 10 + 2


@given(st.binary(max_size=512))
def test_json_contains_the_answer(answer: bytes) -> None:
    """Programs get the kept bytes: as text, or in base64."""
    shown = json.loads(json.dumps(as_dict(row(answer=answer))))
    if shown["answer"] is None:
        assert base64.b64decode(shown["answer_base64"]) == answer
    else:
        assert answer.startswith(shown["answer"].encode())
        assert len(answer) - len(shown["answer"].encode()) < 4


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_time_has_a_text(at: float) -> None:
    """A damaged time does not end the command."""
    assert clock(at)
    assert as_dict(row()._replace(at=at))["step"] == "attempt"
