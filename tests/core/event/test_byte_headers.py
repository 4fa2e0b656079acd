"""Header values as byte arrays (Java's ``byte[]``, Go's ``[]byte``, Python's ``bytearray``) are text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import BadEvent
from consumer.core.event.decode import DecodeRules, scheduling_tenant
from consumer.core.event.sources import parse_rule
from consumer.core.message.delivery import wrap_raw
from consumer.core.message.parked import ParkNote, entry_as_dict, raw_entry_headers, read_entry
from consumer.core.model import Event, ParkReason, RawMessage
from consumer.flow.take.lanes_seen import LanesSeen
from tests.support.builders.messages import TRACE, attempt, decoded, message, parked
from tests.support.builders.strategies import NAMES

SOUND = st.text(st.characters(codec="utf-8"), max_size=30)  #: text that UTF-8 can encode
VALUES = SOUND | st.sampled_from(["", "acme", "1.0", "A.1", TRACE, "2022-11-03T20:26:10Z", "k=v"])
HEADERS = st.dictionaries(NAMES | st.sampled_from(["kind", "ref", "at", "region", "compression"]), VALUES)
RULES = DecodeRules(
    headers=frozenset({"region"}),
    extensions=frozenset({"region"}),
    default_tenant=None,
    inboxes={
        "leveret.inbox.shop": parse_rule(
            {"tenant": "header:tenant", "type": "header:kind", "id": "header:ref", "time": "header:at"}
        )
    },
)


def as_bytes(headers: dict[str, Any]) -> dict[str, Any]:
    """Return *headers* with each text as a byte array."""
    return {name: bytearray(str(text).encode()) for name, text in headers.items()}


def shown(raw: RawMessage) -> object:
    """Return the result of decoding: an event, a hop, or a reason with its detail."""
    found = attempt(raw, RULES)
    return (found.reason, found.detail) if isinstance(found, BadEvent) else found


@given(HEADERS, st.sampled_from(["leveret.lane.00", "leveret.inbox.shop"]))
def test_a_byte_array_is_read_as_the_text(headers: dict[str, Any], queue: str) -> None:
    """Fault 90: tenant, rules, CloudEvents attributes, trace and allowed headers may be byte arrays."""
    texts = message(headers=headers, queue=queue)
    arrays = replace(texts, headers=as_bytes(headers))

    assert shown(arrays) == shown(texts)
    assert wrap_raw(arrays) == wrap_raw(texts)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_tenant_or_a_reason(value: bytes) -> None:
    """Faults 90, 12: any bytes give a tenant or a reason, and the event agrees with the scheduler."""
    found = attempt(message(headers={"tenant": bytearray(value)}))

    turn = scheduling_tenant(DecodeRules(), bytearray(value))
    assert turn == (found.tenant if isinstance(found, Event) else "")


def test_every_kind_of_tenant() -> None:
    """Fault 90: byte arrays, text, bytes and integers name a tenant; others are parked with a reason."""
    for value in ("42", b"42", bytearray(b"42"), 42):
        assert decoded(message(headers={"tenant": value})).tenant == "42"
    for other in (True, 4.2, [bytearray(b"42")], {"a": "42"}):
        assert parked(message(headers={"tenant": other})) == "bad_tenant"
    assert parked(message(headers={"tenant": bytearray(b"leveret")})) == "bad_tenant"


def test_an_empty_byte_array_names_no_tenant() -> None:
    """Fault 90: an empty byte array counts as no tenant, as an empty text does."""
    ways = LanesSeen(DecodeRules())

    assert decoded(message(headers={"tenant": bytearray()})).tenant == "default"
    assert ways.by_lane(bytearray(), "leveret.lane.00") == "default"
    assert ways.nameless == 1
    assert ways.otherwise(bytearray()) == ""
    assert ways.by_lane(bytearray(b"acme"), "leveret.lane.01") == "acme"
    assert ways.lane_of("acme") == "leveret.lane.01"


def test_an_entry_shows_a_byte_array_as_text() -> None:
    """Fault 90: a parked event's tenant is shown, and both forms of the header give one id."""
    note = ParkNote(reason=ParkReason.MALFORMED, detail="broken", at=1.0, ttl_s=60.0)
    ids = set()
    for tenant in ("acme", bytearray(b"acme")):
        raw = message(b"{", headers={"tenant": tenant})
        entry = read_entry(replace(raw, headers=raw_entry_headers(raw, note)))
        assert entry_as_dict(entry)["tenant"] == "acme"
        ids.add(entry.id)
    assert len(ids) == 1


@pytest.mark.parametrize("pattern", [r"[a-z]+", r".*"])
def test_a_tenant_pattern_judges_the_text(pattern: str) -> None:
    """Fault 90: the tenant pattern checks the same text in both forms of the header."""
    rules = DecodeRules(tenant_pattern=re.compile(pattern))

    assert scheduling_tenant(rules, bytearray(b"acme")) == scheduling_tenant(rules, "acme") == "acme"
