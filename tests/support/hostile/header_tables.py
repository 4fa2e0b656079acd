"""Header tables that take far more time to read than their size suggests."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.hostile.messages import entry, long_text

TABLE_BYTES = 120_000  #: a content header is one frame, of 131,072 bytes at most


def _nested_tables(depth: int) -> bytes:
    """Return an entry that holds tables within tables."""
    value = b""
    for _ in range(depth):
        value = entry("", b"F", long_text(value))
    return value


HEADER_TABLES: Mapping[str, bytes] = {
    "voids": entry("h", b"A", long_text(b"V" * TABLE_BYTES)),
    "tables": entry("h", b"A", long_text((b"F" + long_text(b"")) * (TABLE_BYTES // 5))),
    "keys": b"".join(entry(f"{number:05x}", b"V", b"") for number in range(TABLE_BYTES // 7)),
    "depth": _nested_tables(2_000),  # deeper ones cost the broker itself a minute for 20 of them
}
