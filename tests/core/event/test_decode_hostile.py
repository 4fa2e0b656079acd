"""Promises of consumer.core.event.decode about any headers and properties of producers."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given

from consumer.core.errors import BadEvent, ConfigError
from consumer.core.event.decode import DecodeRules, NeedsInbox
from consumer.core.model import DataForm, ParkReason, RawMessage
from consumer.core.text import ids
from consumer.core.webhook.body import build_body
from tests.support.builders.messages import TRACE, attempt, decoded, hopped, message, parked, payload
from tests.support.builders.strategies import ALL_RULES, MESSAGES

TYPE = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")


def test_forged_headers_change_nothing() -> None:
    """Fault 18: leveret-*, x-death, CC and the like are not read."""
    forged: dict[str, object] = {
        "tenant": "acme",
        "leveret-v": 1,
        "leveret-attempt": 10,
        "leveret-tenant": "other",
        "leveret-targets": "sub_0000000000000000",
        "leveret-not-before": 1,
        "leveret-event": "x",
        "x-death": [{"count": 9, "reason": "expired"}],
        "CC": ["leveret.due.00"],
        "BCC": ["leveret.due.00"],
    }

    assert decoded(message(headers=forged)) == decoded(message())


def test_forged_headers_do_not_take_the_hop() -> None:
    """Fault 18: what is republished carries headers of ours alone."""
    forged: dict[str, object] = {"tenant": "acme", "leveret-v": 1, "CC": ["q"], "x-death": [], "priority": 9}

    assert set(hopped(message(message_id=None, headers=forged)).headers) == {"tenant", "timestamp_in_ms"}


def nested(depth: int) -> dict[str, object]:
    """A header table that deep."""
    table: dict[str, object] = {"end": None}
    for _ in range(depth):
        table = {"t": table, "a": [table, Decimal("1.5"), b"\xff", datetime(2020, 1, 1, tzinfo=UTC)]}
    return table


def test_hostile_headers_are_ignored() -> None:
    """Fault 12: tables of depth 200, arrays, None, Decimal, bytes, 128 KB."""
    hostile: dict[str, object] = {
        "tenant": "acme",
        "deep": nested(200),
        "list": [1, [2, [3]]],
        "none": None,
        "decimal": Decimal("1e50"),
        "bytes": b"\xff" * 60_000,
        "long": "x" * 68_000,
        "time": datetime(1, 1, 1, tzinfo=UTC),
    }

    assert decoded(message(headers=hostile)) == decoded(message())


def test_let_through_headers_are_bounded_text() -> None:
    """Fault 12: the allow-list lets scalars through as text; what is too long is parked."""
    rules = DecodeRules(headers=frozenset({"region", "n", "deep", "none"}))
    headers: dict[str, object] = {
        "tenant": "acme",
        "region": b"eu",
        "n": 7,
        "deep": nested(200),
        "none": None,
    }

    assert decoded(message(headers=headers), rules).extras == {"region": "eu", "n": "7"}
    assert parked(message(headers={"region": "x" * 2049}), rules) == "too_large"


@pytest.mark.parametrize("name", ["type", "timestamp", "data", "datacontenttype", "leveret-x", "Leveret-V"])
def test_allow_lists_cannot_replace_members(name: str) -> None:
    """Fault 18: a setting that would overwrite the payload is refused."""
    with pytest.raises(ConfigError, match="cannot be passed on"):
        DecodeRules(headers=frozenset({name}))
    with pytest.raises(ConfigError, match="cannot be passed on"):
        DecodeRules(extensions=frozenset({name}))


@pytest.mark.parametrize(
    "name", ["tenant", "timestamp_in_ms", "traceparent", "ce-id", "CE-x", "cloudEvents:x"]
)
def test_headers_with_a_meaning_cannot_be_let_through(name: str) -> None:
    """Fault 16: or an event would change on its way through the inbox."""
    with pytest.raises(ConfigError, match="Leveret reads it itself"):
        DecodeRules(headers=frozenset({name}))


def test_properties_that_leave() -> None:
    """Fault 12: app_id as source; correlation_id only where the settings say so."""
    raw = message(app_id="shop", correlation_id="c-1")

    assert decoded(raw).extras == {"source": "shop"}
    rules = DecodeRules(send_app_id=False, send_correlation_id=True)
    assert decoded(raw, rules).extras == {"correlation_id": "c-1"}


@pytest.mark.parametrize(
    ("parent", "state", "expected"),
    [
        (TRACE, "a=1,b=2", {"traceparent": TRACE, "tracestate": "a=1,b=2"}),
        (TRACE, "a\r\nx: y", {"traceparent": TRACE}),
        (TRACE, "x" * 513, {"traceparent": TRACE}),
        (TRACE, None, {"traceparent": TRACE}),
        (TRACE.encode(), None, {"traceparent": TRACE}),
        (TRACE + "\r\nx: y", "a=1", {}),
        (TRACE.upper(), None, {}),
        (TRACE.replace("00-", "ff-", 1), None, {}),
        ("00-" + "0" * 32 + "-00f067aa0ba902b7-01", None, {}),
        ({"a": 1}, None, {}),
        (None, "a=1", {}),
    ],
)
def test_trace_context(parent: object, state: object, expected: dict[str, str]) -> None:
    """Fault 12: only a valid trace context becomes HTTP headers."""
    headers = {"tenant": "acme", "traceparent": parent, "tracestate": state}

    assert decoded(message(headers=headers)).trace == expected


@pytest.mark.parametrize(
    ("expiration", "header", "expected"),
    [
        ("60000", None, 1_700_000_060.123),
        ("0", None, 1_700_000_000.123),
        (None, 1_700_000_030_000, 1_700_000_030.0),
        ("60000", 1_700_000_030_000, 1_700_000_030.0),
        (None, None, None),
        ("-1", None, None),
        ("1e3", None, None),
        ("", None, None),
        ("٣", None, None),
        ("9" * 300, None, None),
        (None, "soon", None),
        (None, True, None),
        (None, -5, None),
    ],
)
def test_expiration(expiration: str | None, header: object, expected: float | None) -> None:
    """Fault 19: a valid expiration ends the event's deliveries; a wrong one is ignored."""
    raw = message(expiration=expiration, headers={"expires_at_ms": header})

    assert decoded(raw).expires_at == expected
    assert decoded(raw, DecodeRules(honour_expiration=False)).expires_at is None


@given(MESSAGES, ALL_RULES)
def test_no_message_breaks_the_decoder(raw: RawMessage, rules: DecodeRules) -> None:
    """Faults 1 to 19, SW-06, SW-21: whatever comes is a sound event, a hop or parked, never another error."""
    event = attempt(raw, rules)
    if isinstance(event, BadEvent):
        assert event.reason in set(ParkReason)
        return
    if isinstance(event, NeedsInbox):
        assert event.message_id is None
        return
    assert ids.is_event_id(event.id)
    assert TYPE.fullmatch(event.type)
    assert rules.tenant_pattern.fullmatch(event.tenant)
    sent = payload(event)
    assert (sent["type"], sent["timestamp"]) == (event.type, event.timestamp)
    assert event.timestamp.endswith("Z")
    if event.form is DataForm.JSON:
        data = event.body[event.data_start : event.data_end]
        assert b'"data":' + data in build_body(event)
        assert str(json.loads(data)) == str(sent["data"])  # as text: NaN is no data, -0.0 equals 0
