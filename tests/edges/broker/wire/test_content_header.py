"""The library reads our content headers like its own."""

from __future__ import annotations

import struct
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame
from pamqp.header import ContentHeader

from consumer.edges.broker.wire.content_header import content_header
from consumer.ports import Publication

texts = st.text(st.characters(exclude_categories=["Cs"]))
short = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=120)
values = st.one_of(
    texts,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.none(),
    st.lists(texts),
    st.floats(-8, 8, width=32),
)
publications = st.builds(
    Publication,
    exchange=short,
    routing_key=short,
    body=st.binary(max_size=20),
    headers=st.dictionaries(short, values, max_size=5),
    content_type=st.none() | short,
    content_encoding=st.none() | short,
    type=st.none() | short,
    timestamp_s=st.none() | st.integers(0, 2**31).map(float),
    app_id=st.none() | short,
    correlation_id=st.none() | short,
)


@given(publications, short, st.integers(1, 2047))
def test_it_says_what_the_publication_says(publication: Publication, message_id: str, channel: int) -> None:
    """Every property and header arrives, in a frame of the right channel and size (AMQP 0-9-1, 4.2.6)."""
    written = content_header(publication, message_id, channel)

    size, number, read = frame.unmarshal(written)

    properties = cast(ContentHeader, read).properties
    assert (size, number) == (len(written), channel)
    assert cast(ContentHeader, read).body_size == len(publication.body)
    assert (properties.headers or {}) == publication.headers
    assert properties.content_type == publication.content_type
    assert properties.content_encoding == publication.content_encoding
    assert (properties.delivery_mode, properties.message_id) == (2, message_id)
    assert properties.message_type == publication.type
    at = properties.timestamp
    assert (None if at is None else at.timestamp()) == publication.timestamp_s
    assert (properties.app_id, properties.correlation_id) == (publication.app_id, publication.correlation_id)


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"k" * 256: 1}, ValueError),
        ({"leveret-made": 2**63}, struct.error),
        ({"leveret-made": object()}, TypeError),
        ({"leveret-event": "\ud800"}, ValueError),
    ],
)
def test_values_that_amqp_cannot_carry_are_errors(headers: dict[str, object], error: type[Exception]) -> None:
    """Nothing is cut short or written wrong: the frame is not made."""
    publication = Publication(exchange="x", routing_key="y", body=b"", headers=headers)

    with pytest.raises(error):
        content_header(publication, "id", 1)
