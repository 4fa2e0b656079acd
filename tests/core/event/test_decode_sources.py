"""Events of ``[[sources]]`` exchanges, and the inbox hop."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import BadEvent, ConfigError
from consumer.core.event.amqp_values import as_text
from consumer.core.event.decode import DecodeRules, MissingId, NeedsInbox, decode_event
from consumer.core.event.sources import Const, FromBody, FromHeader, FromRoutingKey, parse_rule
from consumer.core.model import Event, RawMessage
from consumer.core.text import ids
from consumer.core.webhook.body import build_body
from tests.support.builders.cloudevents import ATTRIBUTES, binary, structured
from tests.support.builders.messages import (
    NOW,
    TRACE,
    attempt,
    decoded,
    hopped,
    message,
    payload,
    republished,
)
from tests.support.builders.strategies import ALL_RULES, MESSAGES

INBOX = "leveret.inbox.shop"
BODY = {
    "company": {"id": 42},
    "kind": "order-created",
    "ref": "A.1",
    "when": "2022-11-03T20:26:10.5+01:00",
    "huge": 10**400,
    "payload": [{"z": 1, "a": -0.0}],
}


def rules_for(**fields: str) -> DecodeRules:
    """Return rules with one inbox source, and the same rule applied directly to the exchange ``shop``."""
    rule = parse_rule(fields)
    return DecodeRules(inboxes={INBOX: rule}, exchanges={"shop": rule}, headers=frozenset({"region"}))


def from_shop(body: bytes | None = None, **more: Any) -> RawMessage:
    """Return a message of a foreign exchange, from the inbox queue."""
    fields: dict[str, Any] = {
        "body": json.dumps(BODY).encode() if body is None else body,
        "exchange": "shop",
        "routing_key": "eu.acme.orders",
        "queue": INBOX,
        "headers": {"tenant": "evil", "customer": "c1", "region": "eu"},
        "message_id": None,
    }
    return message(**fields | more)


def through_inbox(raw: RawMessage, rules: DecodeRules) -> Event:
    """Return the event that the events exchange gives after the hop."""
    return decoded(republished(hopped(raw, rules)), rules)


def test_everything_from_the_body() -> None:
    """JSON pointers find tenant, type, id, time and data; the bytes of the data stay unchanged."""
    rules = rules_for(
        tenant="body:/company/id",
        type="body:/kind",
        id="body:/ref",
        time="body:/when",
        data="body:/payload/0",
    )

    event = through_inbox(from_shop(), rules)

    assert (event.tenant, event.id) == ("42", ids.event_id("A.1"))
    assert build_body(event) == (
        b'{"type":"order_created","timestamp":"2022-11-03T19:26:10.500Z","data":{"z": 1, "a": -0.0},'
        b'"region":"eu","originaltype":"order-created"}'
    )


@pytest.mark.parametrize(
    ("rule", "tenant"),
    [
        ("header:customer", "c1"),
        ("routing_key:1", "acme"),
        ("const:fixed", "fixed"),
        ("body:/company/id", "42"),
        ("routing_key", "eu.acme.orders"),
        ("header:absent", "default"),
        ("routing_key:9", "default"),
        ("body:/nothing/here", "default"),
        ("body:/company", "default"),
        ("body:/huge", "default"),
    ],
)
def test_where_the_tenant_comes_from(rule: str, tenant: str) -> None:
    """Fault 16: the rule replaces the producer's tenant header; without a value the default tenant counts."""
    rules = rules_for(tenant=rule)

    assert through_inbox(from_shop(), rules).tenant == tenant
    assert decoded(from_shop(queue="leveret.lane.01", message_id="x"), rules).tenant == tenant


def test_a_bad_tenant_by_rule_is_parked() -> None:
    """Fault 16: a tenant that a rule finds must be a valid tenant id."""
    with pytest.raises(BadEvent, match="bad_tenant"):
        decode_event(from_shop(headers={"customer": "*"}), rules_for(tenant="header:customer"), NOW)


def test_fields_without_a_rule_are_read_as_usual() -> None:
    """Without a rule, the type comes from the routing key, and id and time from the properties."""
    raw = from_shop(message_id="ord-9", type=None)

    event = through_inbox(raw, rules_for())

    assert (event.tenant, event.id, event.type) == ("evil", "ord-9", "eu.acme.orders")
    assert event.timestamp == "2020-09-13T12:26:40Z"
    assert payload(event)["data"] == BODY


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("2022-11-03T20:26:10.3445Z", "2022-11-03T20:26:10.344Z"),
        (1667507170, "2022-11-03T20:26:10Z"),
        (1667507170.5, "2022-11-03T20:26:10.500Z"),
        (1667507170344, "2022-11-03T20:26:10.344Z"),
        ("yesterday", "2020-09-13T12:26:40Z"),
        (True, "2020-09-13T12:26:40Z"),
        (None, "2020-09-13T12:26:40Z"),
        ([1], "2020-09-13T12:26:40Z"),
        (-5, "2020-09-13T12:26:40Z"),
    ],
)
def test_times_by_rule(when: object, expected: str) -> None:
    """SW-22: a rule's time is text, seconds or milliseconds; for other values the property counts."""
    raw = from_shop(json.dumps({"when": when}).encode())

    assert through_inbox(raw, rules_for(time="body:/when")).timestamp == expected


def test_time_from_a_header() -> None:
    """SW-22: a rule reads AMQP timestamps in headers."""
    raw = from_shop(headers={"at": datetime(2022, 11, 3, 20, 26, 10, tzinfo=UTC)})

    assert through_inbox(raw, rules_for(time="header:at")).timestamp == "2022-11-03T20:26:10Z"


def test_data_that_is_missing_is_parked() -> None:
    """Fault 2: an event without data at the rule's pointer is parked."""
    with pytest.raises(BadEvent, match="malformed: the body has no value at /payload/7"):
        decode_event(from_shop(), rules_for(data="body:/payload/7"), NOW)


def test_a_body_that_is_no_json_gives_nothing_to_rules() -> None:
    """Fault 2: a rule on the body finds nothing in text, and the event passes whole."""
    rules = rules_for(tenant="body:/a", id="body:/b", data="body:/c")

    event = through_inbox(from_shop(b'{"a":"x"}', content_type="text/plain"), rules)

    assert (event.tenant, payload(event)["data"]) == ("default", '{"a":"x"}')


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("header:x:y", FromHeader("x:y")),
        ("routing_key:0", FromRoutingKey(0)),
        ("routing_key", FromRoutingKey(None)),
        ("body:", FromBody(())),
        ("body:/a~1b/~0/0", FromBody(("a/b", "~", "0"))),
        ("body:/~01", FromBody(("~1",))),
        ("const:acme", Const("acme")),
    ],
)
def test_rules_are_parsed(text: str, rule: object) -> None:
    """Each kind of rule is parsed, with JSON pointers as RFC 6901 writes them."""
    assert parse_rule({"tenant": text}).tenant == rule


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("tenant", "x"),
        ("tenant", ""),
        ("tenant", "header:"),
        ("tenant", "const:"),
        ("tenant", "body:a"),
        ("tenant", "body:/~2"),
        ("tenant", "body"),
        ("tenant", "routing_key:-1"),
        ("tenant", "routing_key:x"),
        ("tenant", "routing_key:"),
        ("tenant", "header:Leveret-tenant"),
        ("data", "const:x"),
        ("kind", "const:x"),
    ],
)
def test_wrong_rules_are_refused(field: str, text: str) -> None:
    """Fault 18: an invalid rule is an error that names the field; leveret-* headers cannot be a source."""
    with pytest.raises(ConfigError, match=field):
        parse_rule({field: text})


def test_an_event_without_id_takes_the_hop() -> None:
    """Fault 9: an event without id comes back from the hop as the same event, with the caller's id."""
    raw = message(
        b' {"n":1} ',
        message_id=None,
        type="order-created",
        app_id="shop",
        expiration="60000",
        headers={
            "tenant": "acme",
            "traceparent": TRACE,
            "tracestate": "a=1",
            "timestamp_in_ms": 1_600_000_000_344,
        },
    )
    made = ids.uuid7(1_700_000_000_123, bytes(range(10)))
    hop = hopped(raw)

    event = decoded(republished(hop, made))

    assert hop.routing_key == "order.created"
    assert event == decoded(replace(raw, message_id=made))
    assert event.id == made
    assert event.expires_at == 1_700_000_060.123


def test_the_hop_fixes_an_assumed_time() -> None:
    """SW-04: the event's time stays the same over redeliveries of the republished message."""
    again = republished(hopped(message(message_id=None, timestamp_s=None)))

    later = decode_event(again, DecodeRules(), NOW + 100)

    assert isinstance(later, Event)
    assert later.timestamp == "2023-11-14T22:13:20.123Z"


@pytest.mark.parametrize(
    "raw", [structured(data={"n": 1}), binary("CE-", time=5, subject="s", tenantid="t9")]
)
def test_cloudevents_pass_the_inbox(raw: RawMessage) -> None:
    """Faults 13, 14: a rule supplies only the tenant of a CloudEvent."""
    rules = rules_for(tenant="const:acme", type="const:x", id="const:y", time="const:z", data="body:/none")
    direct = decoded(raw, rules)
    raw = replace(raw, queue=INBOX, exchange="shop", headers=dict(raw.headers) | {"tenant": "evil"})

    event = through_inbox(raw, rules)

    assert event == direct
    assert event.id == ids.hashed_id(ATTRIBUTES["source"].encode(), ATTRIBUTES["id"].encode())


def test_a_cloudevents_tenant_may_stand_in_its_body() -> None:
    """Fault 16: a rule's pointer begins at the structured event."""
    raw = replace(structured(company={"id": "c7"}), queue=INBOX)

    assert through_inbox(raw, rules_for(tenant="body:/company/id")).tenant == "c7"


@given(MESSAGES, ALL_RULES)
def test_every_hop_comes_back_as_the_event_it_was(raw: RawMessage, rules: DecodeRules) -> None:
    """Faults 9, 10: an event republished with an id equals the event that had this id from the start."""
    rules = replace(rules, missing_id=MissingId.INBOX)
    hop = attempt(replace(raw, message_id=None), rules)
    if isinstance(hop, NeedsInbox):
        assert decoded(republished(hop), rules) == replace(
            decoded(replace(raw, message_id="0193-made"), rules), body=hop.body
        )


@given(MESSAGES, ALL_RULES, st.sampled_from(["", "const:acme"]))
def test_every_inbox_message_comes_back_as_the_event_it_is(
    raw: RawMessage, rules: DecodeRules, tenant: str
) -> None:
    """Faults 9, 10, 16: a source's event after the hop equals the event that the direct rule gives."""
    rule = parse_rule({"tenant": tenant} if tenant else {})
    rules = replace(rules, inboxes={INBOX: rule}, exchanges={"shop": rule}, missing_id=MissingId.INBOX)
    raw = replace(raw, exchange="shop")
    hop = attempt(replace(raw, queue=INBOX), rules)
    if isinstance(hop, BadEvent):
        return
    assert isinstance(hop, NeedsInbox)
    direct = decoded(raw if as_text(raw.message_id) else replace(raw, message_id="0193-made"), rules)
    after = decoded(republished(hop), rules)
    assert after == replace(direct, id=after.id, body=hop.body, content_type=after.content_type)
    assert build_body(after) == build_body(direct)
    assert after.id == direct.id
