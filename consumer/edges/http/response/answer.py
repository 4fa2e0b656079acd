"""Read one response from the bytes of a connection; the same for both senders.

Data flow: bytes -> (Answer.feed) head in one piece -> status, framing -> bounded body -> over; and whether
the connection may carry another request.

A status counts once its head is complete. The bytes behind the head change neither a success nor a failure,
however they are cut into segments. They only decide whether the connection is used again. Source: RFC 9112.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from consumer.core.model import OutcomeKind
from consumer.edges.http.outcomes import AttemptFailed, shown
from consumer.edges.http.response.chunks import Chunks

HEAD_BYTES = 65_536  #: longest head; a longer one is ``too_large``
HEAD_LINES = 1_000  #: header lines, at most; more are ``too_large`` too
INTERIM_RESPONSES = 64  #: 1xx responses that are skipped, at most
#: Statuses without a body, even if their head has a length. Source: RFC 9112, 6.3.
_BODILESS = frozenset((204, 304))

_BEGINNING = b"HTTP/1."
_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: [^\r\n\0]*)?\r?")
_END = re.compile(rb"\n\r?\n")  #: end of a head; a line may end without its CR. Source: RFC 9112, 2.2
_WELL_FORMED = re.compile(rb"(?:\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r?)*")  #: each line of a head
_FOLD = re.compile(rb"\r?\n[ \t]+")  #: a line that continues in the next one. Source: RFC 9112, 5.2
_FRAMING = re.compile(rb"\n(content-length|transfer-encoding|connection)[ \t]*:([^\n]*)")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_SPACE = b" \t\r"
_TYPE = b"\ncontent-type:"
_TYPE_BYTES = 256


class Answer:
    """One final response, after any 1xx.

    Attributes:
        status: HTTP status; 0 until the head is complete.
        body: Kept part of the body so far.
        over: Whether reading has ended.
        whole: Whether it ended as its head announced, without further bytes.
        fault: Fault of the body, or an empty text.
    """

    __slots__ = (
        *("status", "body", "over", "whole", "fault"),
        *("_limit", "_buffer", "_interim", "_fields", "_lower", "_left", "_chunks", "_persistent"),
    )

    def __init__(self, limit: int) -> None:
        """Begin without a head.

        Args:
            limit: Bytes of a body that are kept; a longer one ends there.
        """
        self.status = 0
        self.body = bytearray()
        self.over = False
        self.whole = False
        self.fault = ""
        self._limit = limit
        self._buffer = bytearray()  #: an incomplete head
        self._interim = 0
        self._fields = self._lower = b""  #: the header lines, each after a line feed
        self._left: int | None = None  #: body bytes to come; None: until the close, or chunked
        self._chunks: Chunks | None = None
        self._persistent = False

    @property
    def kept(self) -> bool:
        """Whether the connection may carry another request."""
        return self.whole and self._persistent

    @property
    def bodiless(self) -> bool:
        """Whether the status alone excludes a body; not every server obeys."""
        return self.status in _BODILESS

    def values(self, name: str) -> Sequence[str]:
        """Return the values of a header, by its lower-case *name*; bytes outside UTF-8 become surrogates."""
        if name.encode() not in self._lower:
            return ()
        spans = (match.span(1) for match in _header(name).finditer(self._lower))
        found = (self._fields[start:end] for start, end in spans)
        return [value.strip(_SPACE).decode("utf-8", "surrogateescape") for value in found]

    def content_type(self) -> str:
        """Return the header ``content-type``, shortened and escaped; an empty text without one."""
        start = self._lower.find(_TYPE)
        if start < 0:
            found = self.values("content-type")
            return shown(found[0]) if found else ""
        start += len(_TYPE)
        end = self._lower.find(b"\n", start, start + _TYPE_BYTES)
        return _shown_type(self._fields[start : end if end >= 0 else start + _TYPE_BYTES])

    def feed(self, data: bytes) -> None:
        """Take bytes of the connection.

        Raises:
            AttemptFailed: they are not a valid HTTP/1 response; never raised once there is a status.
        """
        if self.over:
            self.whole = False
        elif self.status:
            self._take_body(data)
        else:
            self._take_head(data)

    def end(self) -> None:
        """Handle the server's close.

        Raises:
            AttemptFailed: the head was incomplete.
        """
        if not self.status:
            where = "within its head" if self._buffer else "before answering"
            raise AttemptFailed(OutcomeKind.RESET, f"the server closed the connection {where}")
        if not self.over:
            self.over = True
            if self._left is not None or self._chunks is not None:
                self.fault = "the connection ended within the body"

    def _take_head(self, data: bytes) -> None:
        if not self._buffer and data.startswith(_BEGINNING):  # the usual case: the whole head in one piece
            size = data.find(b"\r\n\r\n", 0, HEAD_BYTES)
            head = data[: max(size, 0)]
            if head and b"\n\n" not in head and b"\n\r\n" not in head:
                self._read_head(head)
                data = data[size + 4 :]
                if self.status:
                    if data:
                        self.feed(data)
                    return
        buffer, seen = self._buffer, max(len(self._buffer) - 2, 0)
        buffer += data
        while not self.status:
            if buffer.startswith((b"\r", b"\n")):  # an empty line behind the previous response
                buffer[:] = buffer.lstrip(b"\r\n")
                seen = 0
            if not buffer.startswith(_BEGINNING[: len(buffer)]):
                raise AttemptFailed(
                    OutcomeKind.PROTOCOL, f"the answer does not begin with HTTP/1.: {_first_line(buffer)}"
                )
            end = _END.search(buffer, seen)
            if (len(buffer) if end is None else end.end()) > HEAD_BYTES:
                raise _too_large()
            if end is None:
                return
            head = bytes(buffer[: end.start()])
            del buffer[: end.end()]
            seen = 0
            self._read_head(head)
        if buffer:
            rest = bytes(buffer)
            buffer.clear()
            self.feed(rest)

    def _read_head(self, head: bytes) -> None:
        """Read a complete head; the status stays 0 after a 1xx."""
        line, feed, rest = head.partition(b"\n")
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            raise AttemptFailed(OutcomeKind.PROTOCOL, f"not a status line of HTTP/1: {_first_line(line)}")
        status = int(match[2])
        if status == 101:
            raise AttemptFailed(OutcomeKind.PROTOCOL, "101: the server switched protocols unasked")
        if status < 200:
            self._interim += 1
            if self._interim > INTERIM_RESPONSES:
                raise AttemptFailed(OutcomeKind.PROTOCOL, "1xx responses without end")
            return
        fields = feed + rest
        if fields.count(b"\n") > HEAD_LINES:
            raise _too_large()
        well_formed = _WELL_FORMED.fullmatch(fields) is not None
        if not well_formed:
            fields = _FOLD.sub(b" ", fields)
        self._fields, self._lower = fields, fields.lower()
        self._frame(status, int(match[1]), well_formed=well_formed)
        self.status = status

    def _frame(self, status: int, minor: int, *, well_formed: bool) -> None:
        """Determine the length of the body. Source: RFC 9112, 6.3 and 9.3."""
        lengths: list[bytes] = []
        codings: list[bytes] = []
        options: list[bytes] = []
        for name, value in _FRAMING.findall(self._lower):
            found = lengths if name == b"content-length" else options if name == b"connection" else codings
            found.append(value.strip(_SPACE))
        self._persistent = well_formed and _persistent(options, minor)
        if status in _BODILESS:  # a length in the head is wrong, but a body may follow
            self._end_body(whole=not codings and all(length == b"0" for length in lengths))
        elif codings and lengths:
            raise AttemptFailed(OutcomeKind.PROTOCOL, "the response has two lengths")
        elif codings:
            if minor > 0 and codings == [b"chunked"]:
                self._chunks = Chunks()
        elif lengths:
            self._left = _length(b",".join(lengths))
            if self._left == 0:
                self._end_body(whole=True)

    def _take_body(self, data: bytes) -> None:
        if self._chunks is not None:
            for part in self._chunks.feed(data):
                self._keep(part)
                if self.over:
                    return
            if self._chunks.fault:
                self.fault = self._chunks.fault
                self._end_body(whole=False)
            elif self._chunks.over:
                self._end_body(whole=not self._chunks.excess)
        elif self._left is None:
            self._keep(data)
        else:
            part = data[: self._left]
            self._left -= len(part)
            self._keep(part)
            if self._left == 0 and not self.over:
                self._end_body(whole=len(part) == len(data))

    def _keep(self, part: bytes) -> None:
        room = self._limit - len(self.body)
        self.body += part[:room] if len(part) > room else part
        if len(part) > room:
            self._end_body(whole=False)

    def _end_body(self, *, whole: bool) -> None:
        self.over, self.whole = True, whole


def _persistent(options: Sequence[bytes], minor: int) -> bool:
    """Return whether the server keeps its connection open."""
    if not options or options == [b"keep-alive"]:
        return minor > 0 or bool(options)
    each = {option.strip(_SPACE) for option in b",".join(options).split(b",")}
    return b"close" not in each and (minor > 0 or b"keep-alive" in each)


@lru_cache(maxsize=64)
def _header(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"\n" + re.escape(name.encode()) + rb"[ \t]*:([^\n]*)")


@lru_cache(maxsize=256)
def _shown_type(value: bytes) -> str:
    return shown(value.strip(_SPACE).decode("utf-8", "surrogateescape"))


def _length(text: bytes) -> int:
    """Parse a Content-Length; a list of equal numbers counts as that number. Source: RFC 9110, 8.6.

    Raises:
        AttemptFailed: it is not one length.
    """
    each = {part.strip(_SPACE) for part in text.split(b",")}
    if len(each) != 1 or not _LENGTH.fullmatch(text := each.pop()):
        raise AttemptFailed(OutcomeKind.PROTOCOL, f"not a valid Content-Length: {_first_line(text)}")
    return int(text)


def _too_large() -> AttemptFailed:
    return AttemptFailed(OutcomeKind.TOO_LARGE, "the head of the response is too large")


def _first_line(text: bytes | bytearray) -> str:
    return shown(bytes(text[:200]).partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "surrogateescape"))
