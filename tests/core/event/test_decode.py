"""Plain events: data, id, type, tenant, time and content encoding."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
import zlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import BadEvent
from consumer.core.event.decode import DecodeRules, MissingId, NeedsInbox, decode_event
from consumer.core.model import DataForm, RawMessage
from consumer.core.text import ids
from consumer.core.webhook.body import build_body
from tests.support.builders.messages import NOW, RULES, attempt, decoded, message, parked, payload
from tests.support.builders.strategies import JSON, WHITE


def test_a_plain_event() -> None:
    """SW-03, SW-20 to 23: a plain event has exactly the documented fields."""
    event = decoded(message(b'{"z":1,"a":1.0}'))

    assert (event.id, event.tenant, event.type) == ("ord-1", "acme", "order.created")
    assert event.arrived_at == NOW
    assert not event.timestamp_assumed
    assert build_body(event) == (
        b'{"type":"order.created","timestamp":"2020-09-13T12:26:40Z","data":{"z":1,"a":1.0}}'
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"\xff",
        b"{} x",
        b"NaN",
        b"[Infinity]",
        rb'"\ud800"',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
    ],
    ids=["empty", "space", "cut", "utf-8", "trailing", "NaN", "Infinity", "surrogate", "BOM", "deep"],
)
@pytest.mark.parametrize(
    "content_type", ["application/json", None, "", "application/vnd.x+json", "text/json"]
)
def test_invalid_json_is_parked(body: bytes, content_type: str | None) -> None:
    """Faults 1, 2, 3, 5: a body that is declared as JSON, or undeclared, and is not JSON is parked."""
    assert parked(message(body, content_type=content_type)) == "malformed"


@given(JSON, WHITE, WHITE)
def test_outer_white_space_stays_outside(value: object, before: bytes, after: bytes) -> None:
    """SW-25: the data is the bytes of the JSON value; the body stays as published."""
    data = json.dumps(value).encode()

    event = decoded(message(before + data + after))

    assert event.body == before + data + after
    assert build_body(event).endswith(b'"data":' + data + b"}")
    assert payload(event)["data"] == value


def test_size_is_bounded() -> None:
    """SW-26, fault 6: a body of exactly the limit is accepted; one byte more is parked."""
    rules = DecodeRules(max_event_bytes=10)

    assert decoded(message(b'"12345678"'), rules).body == b'"12345678"'
    assert parked(message(b'"123456789"'), rules) == "too_large"


@pytest.mark.parametrize(
    ("content_type", "body", "data"),
    [
        ("text/plain", "Zoë\n".encode(), "Zoë\n"),
        ("text/plain; charset=UTF-8", "Zoë".encode(), "Zoë"),
        ('text/xml; charset="us-ascii"', b"<a/>", "<a/>"),
        ("text/plain", b"", ""),
    ],
)
def test_text_is_a_string(content_type: str, body: bytes, data: str) -> None:
    """SW-20: text/* in UTF-8 becomes a string, and the payload names its type."""
    sent = payload(decoded(message(body, content_type=content_type)))

    assert sent["data"] == data
    assert sent["datacontenttype"] == content_type
    assert "datacontentencoding" not in sent


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/plain", b"\xff"),
        ("text/plain; charset=utf-16", b"h\0i\0"),
        ("application/octet-stream", b"abc"),
        ("application/xml", b"<a/>"),
        ("image/png", b""),
        ("nonsense", b"{}"),
    ],
)
def test_anything_else_is_base64(content_type: str, body: bytes) -> None:
    """SW-20: other bodies become base64, and the payload names the encoding."""
    event = decoded(message(body, content_type=content_type))

    assert event.form is DataForm.BASE64
    assert event.extras == {"datacontenttype": content_type, "datacontentencoding": "base64"}


@pytest.mark.parametrize(
    "packed", [gzip.compress(b'{"n":1}'), zlib.compress(b'{"n":1}'), zlib.compress(b'{"n":1}', wbits=-15)]
)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "X-GZIP "])
def test_compressed_bodies_are_inflated(packed: bytes, encoding: str) -> None:
    """Fault 6: gzip and both kinds of deflate are decompressed."""
    assert decoded(message(packed, content_encoding=encoding)).body == b'{"n":1}'


def test_inflating_is_bounded() -> None:
    """Fault 6: a decompression bomb is parked, and decompression stops at the limit."""
    bomb = message(gzip.compress(b"0" * 50_000_000), content_encoding="gzip")
    tracemalloc.start()
    try:
        assert parked(bomb) == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    fits = gzip.compress(b'"' + b"0" * 262_142 + b'"')
    assert len(decoded(message(fits, content_encoding="gzip")).body) == 262_144


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", gzip.compress(b"{}")[:-3], gzip.compress(b"{}") + b"x", gzip.compress(b"1") * 2],
    ids=["empty", "plain", "cut", "more", "two"],
)
def test_broken_compression_is_parked(body: bytes) -> None:
    """Fault 2: a truncated stream, or one with trailing bytes, is parked."""
    assert parked(message(body, content_encoding="gzip")) == "malformed"


@pytest.mark.parametrize("packed", [gzip.compress(b'{"n":1}'), zlib.compress(b'{"n":1}')])
@pytest.mark.parametrize(
    "encoding",
    [
        "gzip, UTF-8",
        "gzip:UTF-8",
        "deflate, utf-8",
        " GZIP ,utf-8 ",
        "deflate:UTF-8",
        "utf-8, gzip",
        "Gzip;UTF-8",
    ],
)
def test_a_character_set_beside_the_compression(packed: bytes, encoding: str) -> None:
    """Fault 90: a character set beside the compression, as Spring writes it, is ignored."""
    assert decoded(message(packed, content_encoding=encoding)).body == b'{"n":1}'


@given(st.sampled_from(["gzip", "deflate", "X-Gzip"]), st.text(" \t,:;", max_size=4), st.booleans())
def test_compressions_and_character_sets_in_any_order(name: str, between: str, charset_first: bool) -> None:
    """Fault 90: separators and order of the names change nothing."""
    parts = ["UTF-8", name] if charset_first else [name, "UTF-8"]

    body = decoded(message(gzip.compress(b"[1]"), content_encoding=f",{between}".join(parts))).body

    assert body == b"[1]"


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("br", "'br' is not supported"),
        ("zstd", "'zstd' is not supported"),
        ("aes128gcm", "'aes128gcm' is not supported"),
        ("zip, UTF-8", "'zip' is not supported"),
        ("gzip, br", "'br' is not supported"),
        ("gzip, gzip", "compresses more than once"),
        ("x" * 255, "'" + "x" * 40 + "' is not supported"),
    ],
)
def test_other_encodings_are_parked(encoding: str, named: str) -> None:
    """Faults 6, 90: an unsupported encoding is parked, and the reason names it."""
    bad = attempt(message(content_encoding=encoding))

    assert isinstance(bad, BadEvent)
    assert (bad.reason, named in bad.detail) == ("unsupported_format", True)


def test_kombus_compression_is_inflated() -> None:
    """Fault 90: kombu's ``application/x-gzip`` is a zlib stream, with the same bound as any other."""
    for packed in (zlib.compress(b'{"n":1}'), gzip.compress(b'{"n":1}')):
        raw = kombu(packed, "application/x-gzip")
        assert decoded(raw).body == b'{"n":1}'
    assert parked(kombu(zlib.compress(b"0" * 50_000_000), "application/x-gzip")) == "too_large"
    assert decoded(kombu(zlib.compress(b"[2]"), bytearray(b"application/x-gzip"))).body == b"[2]"


@pytest.mark.parametrize(
    "name", ["application/x-bz2", "application/x-lzma", "application/zstd", "application/x-brotli"]
)
def test_other_compressions_of_kombu_are_parked(name: str) -> None:
    """Fault 90: the reason names the header and its value."""
    bad = attempt(kombu(b"BZh91AY", name))

    assert isinstance(bad, BadEvent)
    assert bad.reason == "unsupported_format"
    assert f"the header compression {name!r} is not supported" in bad.detail


@pytest.mark.parametrize("value", ["application/x-gzip", "gzip", "none", 5, True, None, [1], bytearray(b"x")])
def test_a_header_of_that_name_changes_no_plain_body(value: object) -> None:
    """Fault 90: an application may use the header ``compression`` for its own purposes."""
    assert decoded(kombu(b'{"n":1}', value)).body == b'{"n":1}'


def kombu(body: bytes, compression: object) -> RawMessage:
    """Return a message as kombu publishes it with ``compression=``."""
    return message(body, content_encoding="utf-8", headers={"tenant": "acme", "compression": compression})


@pytest.mark.parametrize(
    "encoding", ["", "identity", "utf-8", "UTF-8", " UTF-8 ", "binary", "identity, utf-8", ","]
)
def test_encodings_that_change_nothing(encoding: str) -> None:
    """Fault 13: a character set in the content encoding is ignored, as some clients write it there."""
    assert decoded(message(content_encoding=encoding)).body == b'{"n":1}'


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        ("order.created", "order.created"),
        ("com.Example.Order_1", "com.Example.Order_1"),
        ("order-created", "order_created"),
        ("../../etc/passwd", "_.._etc_passwd".replace("..", ".")),
        ("a..b.", "a.b"),
        ("a\nb", "a_b"),
        ("📦.sent", "_.sent"),
        ("order.*.#", "order._._"),
        ("x" * 255, "x" * 255),
    ],
)
def test_types_are_normalised(raw: str, normal: str) -> None:
    """Fault 8, SW-21: invalid characters become _, empty words go, and the payload has the original type."""
    event = decoded(message(type=raw))

    assert event.type == normal
    assert event.extras == ({} if raw == normal else {"originaltype": raw})


@pytest.mark.parametrize("raw", ["x" * 256, "é" * 128, "x" * 10_000, "...", "."])
def test_types_beyond_repair_are_parked(raw: str) -> None:
    """Fault 8: a type of over 255 bytes, or without any word, is parked."""
    assert parked(message(type=raw)) == "malformed"


def test_where_the_type_comes_from() -> None:
    """Fault 7: the type is the property, else the routing key, else the default; or the event is parked."""
    rules = DecodeRules(default_type="some.event")

    assert decoded(message(type="a.b"), rules).type == "a.b"
    assert decoded(message(type=""), rules).type == "order.created"
    assert decoded(message(routing_key=""), rules).type == "some.event"
    assert parked(message(routing_key="")) == "malformed"


@pytest.mark.parametrize("raw", ["a.b", "a\r\nb: c", "x" * 300, "ä", "\udcff", b"\xff.", 'a"b'])
def test_unfit_ids_are_hashed(raw: Any) -> None:
    """Fault 9, SW-06: the same invalid id always gives the same valid id."""
    event = decoded(message(message_id=raw))

    assert re.fullmatch(r"msg_[a-z2-7]{27}", event.id)
    assert event.id == decoded(message(b"2", message_id=raw, redelivered=True)).id


def test_redelivery_keeps_the_event() -> None:
    """Fault 10: the same message twice gives the same event."""
    assert decoded(message(redelivered=True, delivery_count=3)) == decoded(message())


@pytest.mark.parametrize("absent", [None, ""])
def test_events_without_id(absent: str | None) -> None:
    """Fault 9: an event without id takes the hop, gets a hash of its content, or is parked."""
    raw = message(message_id=absent)
    by_hash, by_park = (DecodeRules(missing_id=way) for way in (MissingId.HASH, MissingId.PARK))

    assert isinstance(decode_event(raw, RULES, NOW), NeedsInbox)
    assert ids.is_event_id(decoded(raw, by_hash).id)
    assert decoded(raw, by_hash).id == decoded(message(message_id=absent, redelivered=True), by_hash).id
    others: list[dict[str, Any]] = [{"body": b"2"}, {"headers": {}}, {"timestamp_s": 1.0}, {"type": "x"}]
    for other in others:
        assert decoded(message(message_id=absent, **other), by_hash).id != decoded(raw, by_hash).id
    assert parked(raw, by_park) == "missing_id"


def test_a_bad_event_without_id_is_parked_at_once() -> None:
    """Fault 2: a malformed event without id is parked without the hop."""
    assert parked(message(b"{", message_id=None)) == "malformed"


@pytest.mark.parametrize(
    ("property_s", "header", "expected"),
    [
        (1_600_000_000.0, None, "2020-09-13T12:26:40Z"),
        (1_600_000_000, 1_600_000_000_344, "2020-09-13T12:26:40.344Z"),
        (1_600_000_000, 1_500_000_000_344, "2020-09-13T12:26:40Z"),
        (None, 1_600_000_000_344, "2020-09-13T12:26:40.344Z"),
        (1_600_000_000.5, None, "2020-09-13T12:26:40.500Z"),
        (1_600_000_000_344, None, "2020-09-13T12:26:40.344Z"),
        (0, None, "1970-01-01T00:00:00Z"),
    ],
)
def test_time_of_the_event(property_s: float | None, header: object, expected: str) -> None:
    """SW-22: the property timestamp gives the second, and timestamp_in_ms adds the milliseconds."""
    event = decoded(message(timestamp_s=property_s, headers={"timestamp_in_ms": header}))

    assert event.timestamp == expected
    assert not event.timestamp_assumed


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -1.0, 1e300, 10**30, True, "x"])
def test_without_a_time_arrival_counts(value: Any) -> None:
    """SW-22: without a time, the time of arrival counts, and the event is marked."""
    event = decoded(message(timestamp_s=value, headers={"timestamp_in_ms": value}))

    assert event.timestamp == "2023-11-14T22:13:20.123Z"
    assert event.timestamp_assumed


@pytest.mark.parametrize("absent", [{}, {"tenant": None}, {"tenant": ""}])
def test_no_tenant(absent: dict[str, object]) -> None:
    """Fault 16: an event without tenant gets the default tenant, or is parked without a default."""
    assert decoded(message(headers=absent)).tenant == "default"
    assert parked(message(headers=absent), DecodeRules(default_tenant=None)) == "bad_tenant"


@pytest.mark.parametrize(
    "value",
    [
        ".*|acme\n",
        "acme\n",
        "a b",
        "x" * 129,
        "é",
        "\ud800",
        b"\xff",
        1.5,
        True,
        Decimal(1),
        {"a": 1},
        ["acme"],
    ],
)
def test_bad_tenants_are_parked(value: object) -> None:
    """Fault 16: an invalid tenant id is parked; it is never matched with a tenant or turned into one."""
    assert parked(message(headers={"tenant": value})) == "bad_tenant"


@pytest.mark.parametrize(("value", "tenant"), [("a.b:c@d-e_f", "a.b:c@d-e_f"), (42, "42"), (b"acme", "acme")])
def test_good_tenants(value: object, tenant: str) -> None:
    """Fault 16: a tenant is text or an integer, as some systems number their customers."""
    assert decoded(message(headers={"tenant": value})).tenant == tenant


def test_tenant_header_and_pattern_are_settings() -> None:
    """Fault 16: the settings choose the tenant header and the tenant pattern."""
    rules = DecodeRules(tenant_header="x-company", tenant_pattern=re.compile(r"\d+"))

    assert decoded(message(headers={"x-company": "7", "tenant": "8"}), rules).tenant == "7"
    assert parked(message(headers={"x-company": "acme"}), rules) == "bad_tenant"
