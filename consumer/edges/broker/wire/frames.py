"""Read frames of careless or hostile producers, without losing the connection over them.

The AMQP library refuses a whole frame if one text in it is not valid UTF-8, one time is out of range or a
table is nested too deeply, and closes the connection. The broker then delivers the same message again,
endlessly. Here such a value is read leniently, and a table that cannot be read at all is marked, so that the
message is parked.

For each value in a table the library also copies the rest of the table, so that one frame of 120 kB takes
0.5 s. Here a table is walked by offset, each value is cut out once, and reading ends after :data:`MAX_VALUES`
values: 1 ms for a table of any size. Arrived frames are read without a turn of the loop in between, so many
such frames would add up: here the reader lets other tasks run.

Source: pamqp ``decode.METHODS`` and ``decode.TABLE_MAPPING``, its maps of decoders; AMQP 0-9-1, 4.2.5.5;
RabbitMQ "AMQP 0-9-1 Errata" (field types); faults 9, 12, 85.
"""

from __future__ import annotations

import asyncio
import struct
import time
from datetime import datetime

import aiormq.connection
import pamqp.frame
from aiormq.connection import FrameReceiver, ReceivedFrame
from aiormq.exceptions import AMQPConnectionError, InvalidFrameError, ProtocolSyntaxError
from pamqp import commands, decode
from pamqp.common import FieldTable, FieldValue
from pamqp.exceptions import PAMQPException

MAX_VALUES = 2_048
"""Values in the header table of one message, at all levels. Our own have some 20, and 9 more for each
queue in which they died."""

MAX_DEPTH = 256
"""Levels of tables and arrays within the header table."""

TURN_S = 0.01
"""Seconds for which frames are read, and their messages taken in hand, without a turn of the loop.

After a stall, the next event of a quiet tenant is behind all messages that the broker had sent before: with
half of this time, it waited twice as long until it was read."""

UNREADABLE = "leveret-unreadable" + " " * 256
"""Key that replaces an unreadable table; its value is the reason. It is longer than any key that a frame can
carry, so no producer can forge it."""

HEAD_BYTES = 7  #: of a frame: its type, its channel, and the size of its payload
PIECE_BYTES = 256 * 1024  #: of the stream that are taken at once, at most

_SIZES = {b"D": 5, b"T": 8, b"V": 0, b"\x00": 0}
"""Bytes of a value that is not a number of fixed size, by its type; all others begin with their own size."""

_NUMBERS = {"t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q"}
_FIXED = {ord(kind): struct.Struct(form) for kind, form in (_NUMBERS | {"f": ">f", "d": ">d"}).items()}
"""Numbers of a fixed size, by the byte of their type, as the library's decoders read them."""

_TEXT = ord("S")
_TABLE = b"F"
_NESTED = frozenset({_TABLE, b"A"})
_SIZE = struct.Struct(">I")


def install() -> None:
    """Make the library read leniently and within bounds, in this process."""
    aiormq.connection.FrameReceiver = PacedReceiver  # type: ignore[misc]  # a class, replaced by its subclass
    decode.METHODS["shortstr"] = short_str
    decode.METHODS["table"] = table
    decode.METHODS["timestamp"] = timestamp
    decode.TABLE_MAPPING[b"T"] = timestamp
    commands.Connection.Close.__repr__ = closing_reason  # type: ignore[method-assign, assignment]  # of its base


def closing_reason(close: commands.Connection.Close) -> str:
    """Return the broker's reason; the library's errors show only this repr of a refusal."""
    return f"{close.reply_code} {close.reply_text}"


class PacedReceiver(FrameReceiver):
    """Reads many frames from each piece of the stream, for at most :data:`TURN_S` at a time.

    The library waits three times for each frame, through a lock, and copies its bytes twice.
    """

    _until: float | None = None  #: monotonic seconds at the end of this turn; None between turns
    _data: bytes = b""  #: the last piece, behind the start of a frame from the pieces before
    _at: int = 0  #: where the next frame begins in it

    async def get_frame(self) -> ReceivedFrame:
        """Return the next frame; after the end of a turn, other tasks run first.

        Raises:
            AMQPConnectionError: the connection broke.
            InvalidFrameError: the bytes are not a frame.
            ProtocolSyntaxError: the broker refuses this version of AMQP.
            StopAsyncIteration: the connection has ended.
        """
        now = time.monotonic()
        if self._until is None:
            self._until = now + TURN_S
            self.loop.call_soon(self._end_turn)
        elif now >= self._until:
            await asyncio.sleep(0)  # _end_turn was scheduled before this, so a new turn begins
        while True:
            frame = self._next()
            if frame is not None:
                return frame
            await self._read_on()

    def _next(self) -> ReceivedFrame | None:
        """Return the next frame, or None if it has not arrived as a whole."""
        data, at = self._data, self._at
        if len(data) - at < HEAD_BYTES:
            return None
        if not self.started and data.startswith(b"AMQP"):
            raise ProtocolSyntaxError("Unexpected AMQP protocol header")
        self.started = True
        end = at + _frame_bytes(data, at)
        if len(data) < end:
            return None
        self._at = end
        try:
            return pamqp.frame.unmarshal(data[at:end])
        except PAMQPException as error:
            raise InvalidFrameError(str(error)) from error

    async def _read_on(self) -> None:
        """Wait for the next piece of the stream, or for the rest of a frame that has begun to arrive."""
        rest, reader = self._data[self._at :], self.reader
        if reader.at_eof() and not rest:
            raise StopAsyncIteration
        try:
            if len(rest) < HEAD_BYTES:
                piece = await reader.read(PIECE_BYTES)
            else:  # a frame without a bound of its size may need many pieces: the stream joins them once
                piece = await reader.readexactly(_frame_bytes(rest, 0) - len(rest))
        except OSError as error:
            raise AMQPConnectionError(f"Server communication error: {error!r}") from error
        except asyncio.IncompleteReadError as error:
            raise AMQPConnectionError("Server connection unexpectedly closed within a frame") from error
        if not piece:
            raise AMQPConnectionError("Server connection unexpectedly closed")
        self._data, self._at = rest + piece, 0

    def _end_turn(self) -> None:
        self._until = None


def _frame_bytes(data: bytes, at: int) -> int:
    """Return the size of the frame whose head begins at *at*: head, payload, and the byte at its end."""
    return HEAD_BYTES + int(_SIZE.unpack_from(data, at + 3)[0]) + 1


def short_str(value: bytes) -> tuple[int, str]:
    r"""Read a short string; a byte outside UTF-8 becomes ``\xff`` in text."""
    if not value:
        raise ValueError("a short string without its length")
    end = value[0] + 1
    return end, value[1:end].decode("utf-8", "backslashreplace")


def timestamp(value: bytes) -> tuple[int, datetime | None]:
    """Read a time; one outside the calendar becomes None."""
    try:
        return decode.timestamp(value)
    except (OverflowError, OSError, ValueError):
        return 8, None


def table(value: bytes) -> tuple[int, FieldTable | dict[str, FieldValue]]:
    """Read a table; an unreadable one becomes a single entry with the reason."""
    try:
        end = _SIZE.unpack_from(value)[0] + 4
    except struct.error as error:
        raise ValueError("a table without its length") from error
    try:
        return end, _Walk(value).table(4, end, 0)
    except (ValueError, OverflowError, RecursionError, struct.error, ArithmeticError) as error:
        return end, {UNREADABLE: f"{type(error).__name__}: {error}"[:200]}


class _Walk:
    """Reads one table of a frame, and counts its values."""

    __slots__ = ("_data", "_left")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_VALUES

    def table(self, at: int, end: int, depth: int) -> dict[str, FieldValue]:
        """Return the entries from *at* to *end*."""
        data, entries = self._data, {}
        if end > len(data):
            raise ValueError("the headers are longer than their frame")
        while at < end:
            start = at + 1
            at = start + data[at]
            key = data[start:at].decode()
            at, entries[key] = self._value(at, end, depth)
        return entries

    def _array(self, at: int, end: int, depth: int) -> list[FieldValue]:
        values = []
        while at < end:
            at, value = self._value(at, end, depth)
            values.append(value)
        return values

    def _value(self, at: int, end: int, depth: int) -> tuple[int, FieldValue]:
        """Return the end of the value that begins at *at*, and the value."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"the headers hold more than {MAX_VALUES} values")
        data = self._data
        if at >= end:
            raise ValueError("a name without its value")
        fixed = _FIXED.get(data[at])
        if fixed is not None:
            after = at + 1 + fixed.size
            if after > end:
                raise ValueError("a value is longer than its table")
            return after, fixed.unpack_from(data, at + 1)[0]
        if data[at] == _TEXT:
            after = at + 5 + _SIZE.unpack_from(data, at + 1)[0]
            if after > end:
                raise ValueError("a value is longer than its table")
            text = data[at + 5 : after]
            try:
                return after, text.decode()
            except UnicodeDecodeError:
                return after, text
        return self._other(at, end, depth)

    def _other(self, at: int, end: int, depth: int) -> tuple[int, FieldValue]:
        """Return the end of a value of a rarer type, and the value."""
        data = self._data
        kind, start = data[at : at + 1], at + 1
        size = _SIZES.get(kind)
        if size is None:
            size = 4 + _SIZE.unpack_from(data, start)[0]
        after = start + size
        if after > end:
            raise ValueError("a value is longer than its table")
        if kind in _NESTED:
            if depth >= MAX_DEPTH:
                raise ValueError(f"the headers are nested deeper than {MAX_DEPTH} levels")
            read = self.table if kind == _TABLE else self._array
            return after, read(start + 4, after, depth + 1)
        decoder = decode.TABLE_MAPPING.get(kind)
        if decoder is None:
            raise ValueError(f"unknown type of value: {kind!r}")
        return after, decoder(data[start:after])[1]
