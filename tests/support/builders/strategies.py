"""Hypothesis strategies for the tests of decoding: JSON, messages of any content, and rules."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from consumer.core.event.decode import DecodeRules, MissingId
from consumer.core.model import RawMessage
from tests.support.builders.messages import TRACE

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)
WHITE = st.text(alphabet=" \t\r\n", max_size=3).map(str.encode)

SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=40)
    | st.binary(max_size=40)
    | st.binary(max_size=40).map(bytearray)
    | st.decimals()
    | st.datetimes()
    | st.sampled_from(["1.0", "0.3", "A.1", TRACE, "2022-11-03T20:26:10Z"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
NAMES = st.sampled_from(
    [
        *(
            "tenant",
            "timestamp_in_ms",
            "expires_at_ms",
            "traceparent",
            "tracestate",
            "leveret-v",
            "region",
            "leve",
        ),
        *(
            p + n
            for p in ("ce-", "CE-", "cloudEvents_", "cloudEvents:")
            for n in ("id", "source", "type", "time")
        ),
        *("ce-specversion", "cloudEvents_specversion", "ce-tenant", "ce-traceparent", "ce-datacontenttype"),
    ]
) | st.text(max_size=10)
TEXTS: st.SearchStrategy[Any] = (
    st.none() | st.text(st.characters(exclude_categories=()), max_size=80) | SCALARS
)
CONTENT_TYPES = st.sampled_from(
    [
        "application/json",
        "text/plain",
        "image/png",
        "application/cloudevents+json",
        "application/cloudevents",
        None,
    ]
)
MESSAGES = st.builds(
    RawMessage,
    body=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()),
    headers=st.dictionaries(NAMES, VALUES, max_size=12),
    exchange=st.just("leveret.events"),
    routing_key=st.text(max_size=40),
    content_type=CONTENT_TYPES | st.text(st.characters(exclude_categories=()), max_size=40),
    content_encoding=st.none() | st.sampled_from(["gzip", "deflate", "utf-8", "br"]) | st.text(max_size=10),
    message_id=TEXTS,
    type=TEXTS,
    timestamp_s=st.none() | st.floats() | st.integers(),
    expiration=TEXTS,
    app_id=TEXTS,
    correlation_id=TEXTS,
)
ALL_RULES = st.builds(
    DecodeRules,
    max_event_bytes=st.sampled_from([40, 262_144]),
    default_tenant=st.sampled_from(["default", None]),
    missing_id=st.sampled_from(MissingId),
    default_type=st.sampled_from(["some.event", None]),
    extensions=st.just(frozenset({"region", "tenant"})),
    headers=st.sampled_from([frozenset(), frozenset({"region", "leve"})]),
    send_correlation_id=st.booleans(),
)
