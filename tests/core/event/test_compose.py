"""A composed event arrives as it was typed, or an error explains the fault."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import ConfigError
from consumer.core.event.compose import Composed, Draft, Form, check_id
from consumer.core.event.decode import DecodeRules, decode_event
from consumer.core.model import Event, RawMessage
from consumer.core.webhook.body import build_body
from tests.support.builders.messages import NOW
from tests.support.builders.strategies import JSON, WHITE

MOST = DecodeRules().max_event_bytes


def draft(data: bytes = b'{"n":1}', **more: Any) -> Draft:
    """Return a draft with the command's defaults; *more* replaces fields."""
    return replace(Draft(type="order.created", tenant="acme", data=data), **more)


def received(event: Composed) -> Event:
    """Return the event that the daemon decodes from the message; it needs no hop and is not parked."""
    raw = RawMessage(
        body=event.body,
        headers=event.headers,
        exchange="leveret.events",
        routing_key=event.routing_key,
        content_type=event.content_type,
        message_id=event.id,
        timestamp_s=int(event.timestamp_s),  # AMQP has whole seconds
        queue="leveret.lane.00",
    )
    read = decode_event(raw, DecodeRules(), NOW)
    assert isinstance(read, Event), read
    return read


@pytest.mark.parametrize("form", Form)
@given(value=JSON, before=WHITE, after=WHITE, tenant=st.from_regex(r"[A-Za-z0-9_.:@-]{1,20}", fullmatch=True))
def test_the_bytes_of_json_arrive_as_they_were(
    form: Form, value: object, before: bytes, after: bytes, tenant: str
) -> None:
    """SW-05: in every form the webhook's `data` has exactly the given bytes."""
    text = json.dumps(value).encode()
    made = draft(before + text + after, form=form, tenant=tenant)

    made.check(MOST)
    event = received(made.compose("ord-1", 1, NOW))

    assert build_body(event).endswith(b'"data":%b}' % text) or b'"data":%b,' % text in build_body(event)
    assert (event.tenant, event.type, event.id) == (
        tenant,
        "order.created",
        made.compose("ord-1", 1, NOW).webhook_id,
    )


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize(
    "number", [b"1e400", b"-0", b"1.0", b"123456789012345678901234567890", b'{"a":1,"a":2}']
)
def test_numbers_and_duplicates_are_never_written_anew(form: Form, number: bytes) -> None:
    """Fault 5: numbers and duplicate names stay as written."""
    made = draft(number, form=form)

    made.check(MOST)

    assert b'"data":%b' % number in build_body(received(made.compose("ord-1", 1, NOW)))


@pytest.mark.parametrize("form", Form)
def test_other_data_arrives_as_text_or_base64(form: Form) -> None:
    """SW-20: data that is not JSON keeps its content type in every form."""
    text, binary = draft(b"a \xc3\xa9", content_type="text/plain", form=form), draft(b"\x00\xff", form=form)
    binary = replace(binary, content_type="application/octet-stream")

    for made in (text, binary):
        made.check(MOST)
    bodies = [json.loads(build_body(received(made.compose("ord-1", 1, NOW)))) for made in (text, binary)]

    assert bodies[0]["data"] == "a é"
    assert base64.b64decode(bodies[1]["data"]) == b"\x00\xff"
    assert [body["datacontenttype"] for body in bodies] == ["text/plain", "application/octet-stream"]


@pytest.mark.parametrize("form", [Form.STRUCTURED, Form.BINARY])
def test_a_cloudevent_carries_its_attributes(form: Form) -> None:
    """Id and source make the webhook's id, and the payload has both, as well as the time."""
    made = draft(form=form, source="/shop")

    event = received(made.compose("ord.1", 1, NOW))

    body = json.loads(build_body(event))
    assert (body["id"], body["source"], body["timestamp"]) == ("ord.1", "/shop", "2023-11-14T22:13:20.123Z")
    assert event.id == made.compose("ord.1", 1, NOW).webhook_id
    assert event.id.startswith("msg_")


def test_numbers_go_into_data_and_id_only_when_asked_for() -> None:
    """`{n}` is replaced only with --count."""
    plain, numbered = draft(b'"{n}"'), draft(b'{"n":{n}}', numbered=True)

    numbered.check(MOST)

    assert plain.compose("a{n}", 7, NOW).body == b'"{n}"'
    assert plain.compose("a{n}", 7, NOW).id == "a{n}"
    assert numbered.compose("a-{n}", 7, NOW).body == b'{"n":7}'
    assert numbered.compose("a-{n}", 7, NOW).id == "a-7"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (draft(b'{\n  "a": 1,\n}'), ["line 2, column 9", "comma"]),
        (draft(b"hello"), ["line 1, column 1", "--content-type"]),
        (draft(b'"\xff"'), ["line 1, column 2", "UTF-8"]),
        (draft(b'{"n":{n}}'), ["line 1, column 7"]),
        (draft(b" \n"), ["empty", "--file", "stdin"]),
        (draft(b'"' + b"x" * MOST + b'"'), [f"at most {MOST}", "max_event_bytes"]),
        (draft(b'"' + b"x" * (MOST - 100) + b'"', form=Form.STRUCTURED), [f"at most {MOST}"]),
        (draft(tenant="a b"), ["--tenant"]),
        (draft(tenant=""), ["--tenant"]),
        (draft(type="..."), ["TYPE", "order.created"]),
        (draft(type=""), ["TYPE"]),
        (draft(type="a" * 256), ["TYPE", "255"]),
        (draft(type="a\nb"), ["TYPE", "printable"]),
        (draft(type="a\udcff"), ["TYPE", "UTF-8"]),
        (draft(source=""), ["--source"]),
        (draft(source="x" * 3000), ["--source", "2048"]),
        (draft(content_type="x" * 256), ["--content-type", "255"]),
        (draft(content_type="application/cloudevents+json"), ["--content-type", "--cloudevents"]),
    ],
    ids=repr,
)
def test_an_event_that_would_be_parked_is_refused_with_place_and_remedy(
    made: Draft, words: list[str]
) -> None:
    """Faults 1, 2, 6, 8: one line names the fault and its place."""
    with pytest.raises(ConfigError) as refused:
        made.check(MOST)

    text = str(refused.value)
    assert [word for word in words if word not in text] == []
    assert "\n" not in text


@pytest.mark.parametrize("text", ["", "x" * 236, "a\x00b", "\udcff"])
def test_an_id_that_amqp_cannot_carry_is_refused(text: str) -> None:
    """Fault 9: the id is checked before anything is published, with room for the number."""
    with pytest.raises(ConfigError, match="--id"):
        check_id(text)
    check_id("x" * 235)
