"""Write the content header frame of a message: its properties and our headers.

Every postponed delivery needs one. The library writes any message and takes 11 us for one of ours. Here the
properties and values of our own messages are written directly, in 4 us, and all others by the library. A test
checks that both can be read alike.

Source: AMQP 0-9-1, 2.3.5 (frames), 4.2.6 (content headers), 4.2.5.5 (tables); RabbitMQ "AMQP 0-9-1 Errata"
(field types: ``S`` long string, ``l`` signed 64 bit, ``t`` boolean); pamqp ``encode`` (its choice of them).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from struct import Struct

from pamqp import encode, frame
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from consumer.ports import Publication

CONTENT_TYPE, HEADERS, DELIVERY_MODE, MESSAGE_ID = 0x8000, 0x2000, 0x1000, 0x0080
PERSISTENT = 2
BASIC_CLASS = 60
HEADER_FRAME = 2
FRAME_END = b"\xce"

_FLAGS = CONTENT_TYPE | HEADERS | DELIVERY_MODE | MESSAGE_ID
_FRAME = Struct(">BHI")  # type, channel, size
_START = Struct(">HHQH")  # class, weight, size of the body, property flags
_SIZE = Struct(">I")
_TEXT = Struct(">cI")
_INTEGER = Struct(">cq")


def content_header(publication: Publication, message_id: str, channel_number: int) -> bytes:
    """Return the frame for *publication*, persistent, under *message_id*.

    Raises:
        ValueError: a short string is over 255 bytes, or a text cannot be encoded in UTF-8.
        struct.error: an integer has more than 64 bits.
        TypeError: the value of a header is not a valid AMQP value.
    """
    if publication.content_type is None or _has_more(publication):
        return _by_library(publication, message_id, channel_number)
    table = _table(publication.headers)
    payload = b"".join(
        (
            _START.pack(BASIC_CLASS, 0, len(publication.body), _FLAGS),
            _short(publication.content_type),
            _SIZE.pack(len(table)),
            table,
            b"\x02",  # persistent
            _short(message_id),
        )
    )
    return _FRAME.pack(HEADER_FRAME, channel_number, len(payload)) + payload + FRAME_END


def _has_more(publication: Publication) -> bool:
    return not (
        publication.content_encoding is None
        and publication.type is None
        and publication.timestamp_s is None
        and publication.app_id is None
        and publication.correlation_id is None
        and publication.headers
    )


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data  # over 255: ValueError


def _table(headers: Mapping[str, object]) -> bytes:
    parts = []
    for name, value in headers.items():
        parts.append(_short(name))
        if type(value) is str:
            data = value.encode()
            parts.append(_TEXT.pack(b"S", len(data)) + data)
        elif type(value) is int:
            parts.append(_INTEGER.pack(b"l", value))
        else:
            parts.append(encode.encode_table_value(value))  # type: ignore[arg-type]  # it raises for invalid ones
    return b"".join(parts)


def _by_library(publication: Publication, message_id: str, channel_number: int) -> bytes:
    at = publication.timestamp_s
    properties = Basic.Properties(
        content_type=publication.content_type,
        content_encoding=publication.content_encoding,
        delivery_mode=PERSISTENT,
        headers=dict(publication.headers),  # type: ignore[arg-type]  # values are AMQP field values
        message_id=message_id,
        message_type=publication.type,
        timestamp=None if at is None else datetime.fromtimestamp(at, UTC),
        app_id=publication.app_id,
        correlation_id=publication.correlation_id,
    )
    return frame.marshal(
        ContentHeader(properties=properties, body_size=len(publication.body)), channel_number
    )
