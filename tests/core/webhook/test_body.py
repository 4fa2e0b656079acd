"""The payload, and the unchanged bytes of the data in it."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.model import DataForm, Event
from consumer.core.webhook.body import build_body
from tests.support.builders.strategies import JSON


def event(body: bytes, form: DataForm = DataForm.JSON, **more: object) -> Event:
    """Return an event with *body* and arbitrary other fields."""
    base = Event(
        id="msg_1",
        tenant="acme",
        type="contact.created",
        timestamp="2022-11-03T20:26:10.344522Z",
        arrived_at=0.0,
        body=body,
        form=form,
    )
    return Event(**{name: getattr(base, name) for name in base.__slots__} | more)


def test_the_specs_example() -> None:
    """SW-21, SW-22, SW-23, SW-25: the body equals the specification's example byte for byte."""
    body = build_body(event(b'{"id":"1f81eb52-5198-4599-803e-771906343485"}'))

    assert body == (
        b'{"type":"contact.created","timestamp":"2022-11-03T20:26:10.344522Z",'
        b'"data":{"id":"1f81eb52-5198-4599-803e-771906343485"}}'
    )


def test_bytes_are_never_written_anew() -> None:
    """Fault 5: numbers, order, spaces and duplicate names stay as they came."""
    data = b'{"z": 1e400, "a":-0 ,"a":1.0,"n":12345678901234567890123,"s":"\\u00e9\\/"}'

    assert b'"data":' + data + b"}" in build_body(event(data))


@given(JSON, st.dictionaries(st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.text(), max_size=3))
def test_the_payload_is_json(value: object, extras: dict[str, str]) -> None:
    """SW-23: for any data and extras, the payload is JSON and contains them."""
    extras = {name: text for name, text in extras.items() if name not in {"type", "timestamp", "data"}}
    data = json.dumps(value).encode()

    body = build_body(event(b"  " + data + b" ", data_start=2, data_end=2 + len(data), extras=extras))

    assert b'"data":' + data in body
    assert json.loads(body) == {
        "type": "contact.created",
        "timestamp": "2022-11-03T20:26:10.344522Z",
        "data": value,
        **extras,
    }


@given(st.text())
def test_text_becomes_one_string(text: str) -> None:
    """SW-20: text data is a JSON string."""
    assert json.loads(build_body(event(text.encode(), DataForm.TEXT)))["data"] == text


@given(st.binary())
def test_other_data_becomes_base64(raw: bytes) -> None:
    """SW-20: data that is not text becomes base64."""
    data = json.loads(build_body(event(raw, DataForm.BASE64)))["data"]

    assert base64.b64decode(data, validate=True) == raw


def test_no_data_is_null() -> None:
    """SW-23: the payload always has the member ``data``."""
    assert json.loads(build_body(event(b"", DataForm.NULL)))["data"] is None
