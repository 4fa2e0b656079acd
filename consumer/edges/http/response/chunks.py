"""Decode a chunked body, however it is cut into segments. Source: RFC 9112, 7.1."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOST_CHUNKS = 4_096  #: highest number of chunks; more would only cost time
_LINE_BYTES = 8_192  #: longest size line with its extensions, and longest trailers

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?")


class Chunks:
    """The decoder of one body.

    Attributes:
        over: Whether the last chunk and its trailers have been read.
        excess: Whether bytes came behind it.
        fault: The fault, or an empty text; after a fault nothing more is read.
    """

    __slots__ = ("_count", "_due", "_last", "_left", "_line", "_trailers", "excess", "fault", "over")

    def __init__(self) -> None:
        self.over = False
        self.excess = False
        self.fault = ""
        self._left = 0  #: bytes of this chunk to come
        self._due = False  #: whether the line end behind a chunk is next
        self._last = False  #: whether the last chunk was read, so that trailers are next
        self._line = bytearray()  #: an incomplete line
        self._trailers = 0  #: bytes of trailers so far
        self._count = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes and yield the parts of the body in them."""
        at = 0
        while at < len(data) and not self.over and not self.fault:
            if self._left:
                part = data[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                self._due = not self._left
                yield part
                continue
            end = data.find(b"\n", at) + 1
            self._line += data[at : end or len(data)]
            at = end or len(data)
            if len(self._line) + self._trailers > _LINE_BYTES:
                self.fault = "malformed chunks: a line is too long"
            elif end:
                line = bytes(self._line[:-1]).removesuffix(b"\r")
                self._trailers += len(self._line) if self._last else 0
                self._line.clear()
                self._read(line)
        self.excess = at < len(data)

    def _read(self, line: bytes) -> None:
        if self._last:
            self.over = not line
            return
        if self._due:
            self._due = False
            if line:
                self.fault = "malformed chunks: one is longer than its size"
            return
        match = _SIZE.fullmatch(line)
        if match is None:
            self.fault = "malformed chunks: no valid size"
            return
        self._left = int(match[1], 16)
        self._last = not self._left
        self._count += 1
        if self._count > _MOST_CHUNKS:
            self.fault = "too many chunks"
