"""Classify a body as JSON, text or other bytes, and undo its content encoding.

Data flow: bytes as published -> decompress -> read_data -> Data, the span that core.webhook splices.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from typing import NamedTuple

from consumer.core.errors import BadEvent
from consumer.core.event import jsontext
from consumer.core.event.amqp_values import as_text
from consumer.core.model import DataForm, ParkReason

JSON_TYPE = "application/json"

COMPRESSION_HEADER = "compression"
"""Header in which kombu names the compression of the body; its ``application/x-gzip`` is a zlib stream.

Source: kombu, ``kombu.compression``.
"""

# Some clients (kombu, Spring) write the character set into the content encoding; no byte changes by that.
_NO_ENCODING = frozenset({"", "identity", "binary", "8bit", "7bit", "utf-8", "utf8", "us-ascii", "ascii"})
_INFLATED = frozenset({"gzip", "x-gzip", "deflate"})
_BETWEEN_ENCODINGS = re.compile(r"[\s,:;]+")  # Spring writes "gzip, UTF-8", its earlier versions "gzip:UTF-8"
_KOMBU_INFLATED = "application/x-gzip"
_KOMBU_OTHERS = re.compile(r"application/(x-)?(bz2|bzip2|lzma|xz|brotli|zstd)")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_REMEMBERED_CHARS = 255  #: longer content types come from a header or a body and are not worth caching
_UTF8_NAMES = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class Data(NamedTuple):
    """The data of an event within its body."""

    form: DataForm
    content_type: str | None  #: as declared; None if nothing was declared
    start: int = 0
    end: int | None = None  #: None is the end of the body
    encoded: bool = False  #: JSON form: True if the value is a string that contains base64
    value: object = None  #: the whole body as parsed, if it is JSON


def decompress(body: bytes, encoding: str | None, max_bytes: int, compression: object = None) -> bytes:
    """Return *body* without its content encoding, and without the compression that kombu's header names.

    Args:
        body: The body as published.
        encoding: The AMQP property: ``gzip`` or ``deflate``, which are undone. Names of character sets beside
            it are ignored.
        max_bytes: Bound of *body* and of the result; decompression stops there.
        compression: Value of the header :data:`COMPRESSION_HEADER`; values of other writers are ignored.

    Raises:
        BadEvent: ``too_large``, ``malformed`` (a broken stream) or ``unsupported_format`` (another encoding).
    """
    if len(body) > max_bytes:
        detail = f"the body has {len(body)} bytes, at most {max_bytes} are accepted"
        raise BadEvent(ParkReason.TOO_LARGE, detail)
    if encoding is not None and _is_compressed(encoding):
        body = _inflate(body, _GZIP_OR_ZLIB, max_bytes)
    if compression is not None and _is_compressed_by_kombu(compression, body):
        body = _inflate(body, _GZIP_OR_ZLIB, max_bytes)
    return body


def _is_compressed(encoding: str) -> bool:
    """Return whether a content encoding names one compression, in any case and among character sets."""
    name = encoding.strip().lower()
    if name in _NO_ENCODING:
        return False
    if name in _INFLATED:
        return True
    names = [part for part in _BETWEEN_ENCODINGS.split(name) if part not in _NO_ENCODING]
    unknown = next((part for part in names if part not in _INFLATED), None)
    if unknown is not None:
        detail = f"content encoding {unknown[:40]!r} is not supported; use gzip, deflate or none"
        raise BadEvent(ParkReason.UNSUPPORTED_FORMAT, detail)
    if len(names) > 1:
        detail = f"content encoding {name[:40]!r} compresses more than once; compress once"
        raise BadEvent(ParkReason.UNSUPPORTED_FORMAT, detail)
    return bool(names)


def _is_compressed_by_kombu(compression: object, body: bytes) -> bool:
    """Return whether kombu compressed *body*, judged by its header and the start of a gzip or zlib stream."""
    name = (as_text(compression) or "").strip().lower()
    if _KOMBU_OTHERS.fullmatch(name):
        detail = f"the header {COMPRESSION_HEADER} {name!r} is not supported; use gzip or none"
        raise BadEvent(ParkReason.UNSUPPORTED_FORMAT, detail)
    if name != _KOMBU_INFLATED:
        return False
    zlib_stream = body[:1] == b"\x78" and int.from_bytes(body[:2]) % 31 == 0
    return zlib_stream or body[:2] == b"\x1f\x8b"


def _inflate(body: bytes, window_bits: int, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(window_bits)
    try:
        plain = stream.decompress(body, max_bytes + 1)
    except zlib.error:
        if window_bits != -zlib.MAX_WBITS:
            return _inflate(body, -zlib.MAX_WBITS, max_bytes)  # "deflate" without the zlib header
        raise BadEvent(ParkReason.MALFORMED, "the compressed body is broken") from None
    if len(plain) > max_bytes:
        raise BadEvent(ParkReason.TOO_LARGE, f"the body inflates to more than {max_bytes} bytes")
    if not stream.eof or stream.unused_data:
        raise BadEvent(ParkReason.MALFORMED, "the compressed body is truncated or has bytes after its end")
    return plain


def media_type(content_type: str | None) -> str:
    """Return a content type in lower case without parameters; empty if there is none."""
    if content_type is not None and len(content_type) > _REMEMBERED_CHARS:
        return _media_type.__wrapped__(content_type)
    return _media_type(content_type)


@lru_cache(maxsize=256)
def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def is_json(content_type: str | None) -> bool:
    """Return whether a body of this content type is JSON: ``application/json``, ``+json``, or undeclared."""
    kind = media_type(content_type)
    return kind in {"", JSON_TYPE, "text/json"} or kind.endswith("+json")


def read_data(content_type: str | None, body: bytes) -> Data:
    """Return the whole of *body* as data.

    JSON is validated, and the white space around it is left out. ``text/*`` in UTF-8 is text. Any other body
    becomes base64.

    Raises:
        BadEvent: the body is declared as JSON and is not valid JSON; ``malformed``.
    """
    if content_type == JSON_TYPE or is_json(content_type):
        value = jsontext.parse(body)
        if body[0] > 0x20 and body[-1] > 0x20:
            return Data(DataForm.JSON, content_type, value=value)
        return Data(DataForm.JSON, content_type, *jsontext.trim(body), value=value)
    if media_type(content_type).startswith("text/") and _is_utf8(content_type, body):
        return Data(DataForm.TEXT, content_type)
    return Data(DataForm.BASE64, content_type)


def _is_utf8(content_type: str | None, body: bytes) -> bool:
    for parameter in (content_type or "").lower().split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in _UTF8_NAMES:
            return False
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
