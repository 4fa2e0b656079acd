"""Read frames that a careless or hostile producer wrote, without losing the connection over them.

The AMQP library refuses a whole frame when one text in it is no UTF-8, one time is out of range or a table
is nested too deeply, and closes the connection. The broker then gives the same message out again, for ever.
Here such a value is read leniently, and a table that cannot be read at all is told apart, so that the
message is parked.

Source: pamqp ``decode.METHODS`` and ``decode.TABLE_MAPPING``, its maps of decoders; FAULTS 9, 12.
"""

from __future__ import annotations

import struct
from datetime import datetime

from pamqp import commands, decode
from pamqp.common import FieldTable, FieldValue

UNREADABLE = "leveret-unreadable" + " " * 256
"""Key that stands in for a table that cannot be read; its value says why. It is longer than any key that a
frame can carry, so no producer can forge it."""


def install() -> None:
    """Make the library read leniently, in this process."""
    decode.METHODS["shortstr"] = short_str
    decode.METHODS["table"] = table
    decode.METHODS["timestamp"] = timestamp
    decode.TABLE_MAPPING[b"T"] = timestamp
    commands.Connection.Close.__repr__ = closing_reason  # type: ignore[method-assign, assignment]  # of its base


def closing_reason(close: commands.Connection.Close) -> str:
    """Return the broker's reason: of a refusal the library's errors show this repr and nothing else."""
    return f"{close.reply_code} {close.reply_text}"


def short_str(value: bytes) -> tuple[int, str]:
    r"""Read a short string; a byte that is no UTF-8 becomes ``\xff`` in text."""
    if not value:
        raise ValueError("a short string without its length")
    end = value[0] + 1
    return end, value[1:end].decode("utf-8", "backslashreplace")


def timestamp(value: bytes) -> tuple[int, datetime | None]:
    """Read a time; one that no calendar holds is None."""
    try:
        return decode.timestamp(value)
    except (OverflowError, OSError, ValueError):
        return 8, None


def table(value: bytes) -> tuple[int, FieldTable | dict[str, FieldValue]]:
    """Read a table; one that cannot be read becomes a single entry that says so."""
    try:
        end = struct.unpack_from(">I", value)[0] + 4
    except struct.error as error:
        raise ValueError("a table without its length") from error
    try:
        return end, decode.field_table(value[:end])[1]
    except (ValueError, OverflowError, RecursionError, struct.error, ArithmeticError) as error:
        return end, {UNREADABLE: f"{type(error).__name__}: {error}"[:200]}
