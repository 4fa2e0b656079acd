"""Read a body that comes in chunks, however it is cut into segments. Source: RFC 9112, 7.1."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOST_CHUNKS = 4_096  #: more of them are work that nobody needs
_LINE_BYTES = 8_192  #: of a size with its extensions, and of all trailers together

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?")


class Chunks:
    """The decoder of one body.

    Attributes:
        over: The last chunk and its trailers have been read.
        excess: Bytes came behind it.
        fault: What is wrong, if anything; then nothing more is read.
    """

    __slots__ = ("_count", "_due", "_last", "_left", "_line", "_trailers", "excess", "fault", "over")

    def __init__(self) -> None:
        self.over = False
        self.excess = False
        self.fault = ""
        self._left = 0  #: bytes of this chunk to come
        self._due = False  #: the line end behind a chunk is next
        self._last = False  #: the last chunk was read; trailers are next
        self._line = bytearray()  #: a line that is not complete
        self._trailers = 0  #: bytes of trailers that were read
        self._count = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what came and yield the body's parts in it."""
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
