"""Create and check ids for the header ``webhook-id``. Time and random bytes are arguments."""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode

_EVENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HASH_CHARS = 27  #: base32 characters: 135 bits, enough to rule out chance collisions
_HASH_BYTES = 17  #: the bytes that those characters encode


def is_event_id(text: str) -> bool:
    """Return whether *text* is valid as a ``webhook-id`` unchanged: 1 to 64 of ``[A-Za-z0-9_-]``.

    Source: Standard Webhooks 1.0.0, "Signature scheme" (an id must not contain a full stop).
    """
    return _EVENT_ID.fullmatch(text) is not None


def event_id(text: str) -> str:
    """Return *text* if it is valid as a ``webhook-id``, else an id made from its hash."""
    return text if is_event_id(text) else hashed_id(text.encode("utf-8", "surrogatepass"))


def hashed_id(*parts: bytes) -> str:
    """Return ``msg_`` and 27 base32 characters of SHA-256 over *parts* joined by a zero byte.

    The id is lower case, so that receivers whose database ignores case still keep ids apart.
    """
    digest = hashlib.sha256(b"\0".join(parts)).digest()
    return "msg_" + b32encode(digest[:_HASH_BYTES]).decode()[:_HASH_CHARS].lower()


def uuid7(unix_ms: int, random: bytes) -> str:
    """Return a UUID of version 7: ordered by time, 36 characters, valid as a ``webhook-id``.

    Args:
        unix_ms: Unix time in milliseconds, 0 to 2**48 - 1.
        random: 10 random bytes, of which 74 bits are used.

    Raises:
        ValueError: an argument is out of its range.

    Source: RFC 9562, section 5.7.
    """
    if not 0 <= unix_ms < 1 << 48:
        raise ValueError(f"milliseconds must fit into 48 bits, got {unix_ms}")
    if len(random) != 10:
        raise ValueError(f"10 random bytes are needed, got {len(random)}")
    bits = int.from_bytes(random, "big")
    high = (7 << 12) | (bits >> 68)  # version, then 12 random bits
    low = (0b10 << 62) | (bits & ((1 << 62) - 1))  # variant, then 62 random bits
    digits = f"{unix_ms:012x}{high:04x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
