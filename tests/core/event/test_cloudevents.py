"""CloudEvents, structured and binary, become events as docs/publish.md describes."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import BadEvent
from consumer.core.event.decode import DecodeRules
from consumer.core.model import DataForm, Event
from consumer.core.text import ids
from consumer.core.webhook.body import build_body
from tests.support.builders.cloudevents import ATTRIBUTES, STRUCTURED, binary, structured
from tests.support.builders.messages import decoded, message, parked, payload
from tests.support.builders.strategies import JSON


def test_structured_is_mapped() -> None:
    """Fault 13, SW-20 to 23: attributes become members, and the bytes of the data stay unchanged."""
    body = b"""
    { "specversion" : "1.0", "data": {"z": 1e400, "a": [ "]}" ] , "a":-0}, "type":"com.example.order-created",
      "source":"/shop", "id":"A.1", "time":"2022-11-03T20:26:10.5+01:00", "subject": "o1",
      "dataschema":"https://s.example/1", "region":"eu", "secret":"x", "shard": 7, "flag": true, "none": null}
    """
    rules = DecodeRules(extensions=frozenset({"region", "shard", "flag", "none"}))

    event = decoded(message(body, content_type="Application/CloudEvents+JSON; charset=utf-8"), rules)

    sent = build_body(event)
    assert b'"data":{"z": 1e400, "a": [ "]}" ] , "a":-0},' in sent
    assert json.loads(sent) == {
        "type": "com.example.order_created",
        "timestamp": "2022-11-03T19:26:10.5Z",
        "data": json.loads('{"z": 1e400, "a":-0}'),
        "id": "A.1",
        "source": "/shop",
        "subject": "o1",
        "dataschema": "https://s.example/1",
        "flag": "true",
        "region": "eu",
        "shard": "7",
        "originaltype": "com.example.order-created",
    }


@pytest.mark.parametrize("prefix", ["ce-", "CE-", "Ce-", "cloudEvents_", "cloudEvents:"])
def test_binary_is_mapped(prefix: str) -> None:
    """Fault 14: each prefix gives the same event as the structured form."""
    event = decoded(binary(prefix, time="2022-11-03T20:26:10Z", subject="o1"))

    same = decoded(structured(time="2022-11-03T20:26:10Z", subject="o1", data={"n": 1}))
    assert event.id == same.id
    assert payload(event) == payload(same)
    assert payload(event)["data"] == {"n": 1}


def test_ce_names_are_read_without_case() -> None:
    """Fault 14: names after the prefix ce- are read in any case, as RabbitMQ clients write them."""
    headers = {"CE-Id": "A.1", "ce-SOURCE": "/shop", "Ce-SpecVersion": "1.0", "ce-type": "t"}

    assert decoded(message(headers=headers)).extras["source"] == "/shop"


def test_id_is_made_of_source_and_id() -> None:
    """SW-03, SW-06: source and id together make the id; message_id has no influence."""
    one = decoded(binary())

    assert one.id == ids.hashed_id(b"/shop", b"A.1")
    assert one.id == decoded(binary("cloudEvents_", body=b"2")).id
    assert one.id != decoded(binary(source="/shop2")).id
    assert one.id != decoded(binary(id="A.2")).id
    assert decoded(structured(source="/a", id="b/c")).id != decoded(structured(source="/ab", id="/c")).id


def test_mixed_prefixes_are_parked() -> None:
    """Fault 14: a message with two prefixes is parked."""
    headers = {**binary("ce-").headers, **binary("cloudEvents_").headers}

    assert parked(message(headers=headers)) == "malformed"
    assert parked(message(headers={"ce-id": "1", "cloudEvents:source": "/shop"})) == "malformed"
    assert parked(message(headers={"cloudEvents_id": "1", "cloudEvents:source": "/shop"})) == "malformed"
    assert parked(message(headers={"ce-id": "1", "CE-ID": "2"})) == "malformed"


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("value", [..., "", None, {"a": 1}], ids=["absent", "empty", "null", "table"])
def test_binary_without_a_mandatory_attribute_is_plain(name: str, value: Any) -> None:
    """Fault 14: a message that lacks a mandatory header is a plain event."""
    event = decoded(binary(**{name: value}))

    assert (event.id, event.type, event.extras) == ("ord-1", "order.created", {})


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("value", [..., "", None, {"a": 1}, 1.0])
def test_structured_without_a_mandatory_attribute_is_parked(name: str, value: Any) -> None:
    """Fault 14: a structured CloudEvent that lacks a mandatory attribute is malformed."""
    assert parked(structured(**{name: value})) == "malformed"


@pytest.mark.parametrize("version", ["0.3", "2.0", "1", "1.", "1.0.2", "11.0", "x"])
def test_other_versions_are_parked(version: str) -> None:
    """Fault 13: a specversion other than 1.x is parked."""
    assert parked(structured(specversion=version)) == "unsupported_format"
    assert parked(binary(specversion=version)) == "unsupported_format"


def test_later_minor_versions_are_read() -> None:
    """Fault 13: every specversion 1.x is read."""
    assert decoded(structured(specversion="1.1")).extras["source"] == "/shop"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/cloudevents",
        "application/cloudevents+avro",
        "application/cloudevents+xml",
        "application/cloudevents-batch+json",
        "APPLICATION/CloudEvents-Batch+JSON; charset=UTF-8",
    ],
)
def test_other_formats_are_parked(content_type: str) -> None:
    """Fault 13: batches, Avro and other formats are parked."""
    assert parked(structured(content_type)) == "unsupported_format"


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b'"x"', b"{", b"{} {}", b'{"id":"\\ud800"}', b"\xff"])
def test_structured_that_is_no_object_is_parked(body: bytes) -> None:
    """Faults 2, 5: a structured CloudEvent must be a JSON object."""
    assert parked(message(body, content_type=STRUCTURED)) == "malformed"


def test_base64_data_stays_base64() -> None:
    """Fault 13: data_base64 becomes a string, and the payload names its encoding."""
    raw = bytes(range(256))
    event = decoded(structured(data_base64=base64.b64encode(raw).decode(), datacontenttype="image/png"))

    sent = payload(event)
    assert base64.b64decode(sent["data"]) == raw
    assert (sent["datacontentencoding"], sent["datacontenttype"]) == ("base64", "image/png")


@pytest.mark.parametrize("text", ["%%%", "YQ", "YQ==YQ==", "YQ==\n", "é", 7, {"a": 1}, True])
def test_broken_base64_is_parked(text: object) -> None:
    """Fault 13: data_base64 that is not base64 text is parked."""
    assert parked(structured(data_base64=text)) == "malformed"


def test_two_kinds_of_data_are_parked() -> None:
    """Fault 13: a CloudEvent with both data and data_base64 is parked."""
    assert parked(structured(data=1, data_base64="YQ==")) == "malformed"


@pytest.mark.parametrize(
    ("members", "data"),
    [({}, None), ({"data": None}, None), ({"data_base64": None}, None), ({"data": ""}, ""), ({"data": 0}, 0)],
)
def test_structured_without_data(members: dict[str, Any], data: object) -> None:
    """Fault 13: missing data becomes null; empty text and zero are data."""
    assert payload(decoded(structured(**members)))["data"] == data


def test_structured_text_data_names_its_type() -> None:
    """SW-20: data that is not JSON becomes a string, and the payload names its content type."""
    sent = payload(decoded(structured(data="<a/>", datacontenttype="text/xml")))

    assert (sent["data"], sent["datacontenttype"]) == ("<a/>", "text/xml")
    assert "datacontentencoding" not in sent


def test_binary_without_body_has_no_data() -> None:
    """Fault 1: a CloudEvent may have no data; a plain event must have some."""
    assert payload(decoded(binary(body=b"")))["data"] is None


def test_binary_other_data() -> None:
    """SW-20: the content type determines the form of the data."""
    raw = binary(body=b"\x00\xff")
    raw.content_type = "image/png"

    sent = payload(decoded(raw))
    assert base64.b64decode(sent["data"]) == b"\x00\xff"
    assert (sent["datacontentencoding"], sent["datacontenttype"]) == ("base64", "image/png")


def test_binary_data_that_is_no_json_is_parked() -> None:
    """Fault 2: declared JSON that is not valid is parked in binary mode too."""
    assert parked(binary(body=b"{")) == "malformed"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2022-11-03T20:26:10.344522Z", "2022-11-03T20:26:10.344522Z"),
        ("2022-11-03T20:26:10+02:00", "2022-11-03T18:26:10Z"),
        (datetime(2022, 11, 3, 20, 26, 10, tzinfo=UTC), "2022-11-03T20:26:10Z"),
        (datetime(2022, 11, 3, 20, 26, 10, tzinfo=timezone(timedelta(hours=2))), "2022-11-03T18:26:10Z"),
        (datetime(2022, 11, 3, 20, 26, 10), "2022-11-03T20:26:10Z"),  # naive
        (1667507170344, "2022-11-03T20:26:10.344Z"),
        (b"2022-11-03T20:26:10Z", "2022-11-03T20:26:10Z"),
        (None, "2020-09-13T12:26:40Z"),
        ("", "2020-09-13T12:26:40Z"),
    ],
)
def test_binary_time(value: object, expected: str) -> None:
    """SW-22: time may be text, an AMQP timestamp or milliseconds; otherwise the property timestamp counts."""
    assert decoded(binary(time=value)).timestamp == expected


@pytest.mark.parametrize("value", ["yesterday", -1, 2**63, True, 1.5, {"a": 1}, ["x"], "2022-11-03T20:26:10"])
def test_a_wrong_time_is_parked(value: object) -> None:
    """SW-22: an invalid time is parked instead of guessed."""
    assert parked(binary(time=value)) == "malformed"


@pytest.mark.parametrize("value", ["yesterday", True, 1.5])
def test_a_wrong_time_is_parked_in_structured_mode_too(value: object) -> None:
    """SW-22: an invalid time is parked instead of guessed."""
    assert parked(structured(time=value)) == "malformed"


def test_tenant_comes_from_header_then_extension() -> None:
    """Fault 16: the tenant header decides first, then the extensions tenant and tenantid."""
    assert decoded(structured(tenant="other")).tenant == "acme"
    without = structured(tenant="t1", tenantid="t2")
    without.headers = {}
    assert decoded(without).tenant == "t1"
    only_id = binary(tenantid="t2")
    only_id.headers = {name: value for name, value in only_id.headers.items() if name != "tenant"}
    assert decoded(only_id).tenant == "t2"


def test_a_wrong_tenant_extension_is_parked() -> None:
    """Fault 16: a tenant extension with characters outside the pattern is parked."""
    raw = structured(tenant=".*\n")
    raw.headers = {}

    assert parked(raw) == "bad_tenant"


@pytest.mark.parametrize("nothing", [None, ""])
def test_an_empty_tenant_header_lets_the_extension_speak(nothing: object) -> None:
    """Fault 16: None and empty text name no tenant, so that the next source of the tenant decides."""
    raw = binary(tenant="", tenantid="t2")
    raw.headers = {**raw.headers, "tenant": nothing}

    assert decoded(raw).tenant == "t2"


def test_a_falsy_tenant_header_still_decides() -> None:
    """Fault 16: 0 is a valid tenant header and [] is an invalid one; neither falls back to the extension."""
    zero, wrong = binary(tenant="evil"), binary(tenant="evil")
    zero.headers = {**zero.headers, "tenant": 0}
    wrong.headers = {**wrong.headers, "tenant": []}

    assert decoded(zero).tenant == "0"
    assert parked(wrong) == "bad_tenant"


def test_trace_comes_from_the_extension_then_the_headers() -> None:
    """S0-9: a valid trace context is forwarded; the extension takes precedence over the headers."""
    own, header = (f"00-{digit * 32}-00f067aa0ba902b7-01" for digit in "12")
    raw = structured(traceparent=own, tracestate="a=1")
    raw.headers = {"traceparent": header}
    assert decoded(raw).trace == {"traceparent": own, "tracestate": "a=1"}
    plain = structured(traceparent="x")
    plain.headers = {"traceparent": header}
    assert decoded(plain).trace == {"traceparent": header}


@pytest.mark.parametrize("name", ["id", "source", "subject", "dataschema", "region", "datacontenttype"])
def test_endless_attributes_are_parked(name: str) -> None:
    """Fault 12: forwarded attributes are bounded to 2,048 bytes each."""
    rules = DecodeRules(extensions=frozenset({"region"}))
    fits: dict[str, Any] = {name: "é" * 1024, "data": 1}
    too_long: dict[str, Any] = {name: "é" * 1024 + "x", "data": 1}

    assert decoded(structured(**fits), rules).extras[name] == "é" * 1024
    assert parked(structured(**too_long), rules) == "too_large"


def test_other_attributes_do_not_leave() -> None:
    """Fault 12: only allow-listed extensions reach the payload."""
    assert "region" not in payload(decoded(binary(region="eu")))


def test_attributes_that_no_double_holds_are_absent() -> None:
    """Fault 5: a number too large for a double passes as data, and counts as an absent attribute."""
    raw = structured(data=1, region="eu")
    raw.body = raw.body.replace(b'"eu"', b"1e400")

    assert "region" not in decoded(raw, DecodeRules(extensions=frozenset({"region"}))).extras


def test_headers_that_are_no_text_are_no_attributes() -> None:
    """Fault 12: headers whose name is not text are ignored."""
    headers: dict[Any, object] = {**binary().headers, b"ce-\xff": 1, 7: 1}

    assert decoded(message(headers=headers)).extras["source"] == "/shop"


def test_names_may_be_escaped() -> None:
    r"""Fault 2: "d\u0061ta" is data; the last of two counts."""
    raw = structured(data=1)
    raw.body = raw.body[:-1] + rb',"d\u0061ta":2}'

    assert payload(decoded(raw))["data"] == 2


@given(JSON, st.integers(0, 4), st.booleans())
def test_the_datas_bytes_are_in_the_payload(value: object, indent: int, first: bool) -> None:
    """SW-05, SW-25: the bytes of the data reach the payload unchanged and parse to the same value."""
    data = json.dumps(value, indent=indent or None)
    rest = json.dumps(ATTRIBUTES, indent=indent or None)[1:-1]
    text = f'{{"data" :{data},{rest}}}' if first else f'{{{rest}, "data": {data}\n}} '

    event = decoded(message(text.encode(), content_type=STRUCTURED))

    assert b'"data":' + data.encode() + b"," in build_body(event)
    assert payload(event)["data"] == value
    assert event.body == text.encode()


@given(
    st.dictionaries(
        st.sampled_from([*ATTRIBUTES, "time", "subject", "data", "data_base64", "datacontenttype", "tenant"]),
        JSON | st.sampled_from(list(ATTRIBUTES.values())),
    )
)
def test_no_cloudevent_breaks_the_decoder(members: dict[str, Any]) -> None:
    """Faults 2, 13: a structured event with any content is decoded or parked."""
    try:
        event = decoded(message(json.dumps(ATTRIBUTES | members).encode(), content_type=STRUCTURED))
    except BadEvent:
        return
    assert isinstance(event, Event)
    assert event.form in set(DataForm)
    assert payload(event)["type"] == event.type
