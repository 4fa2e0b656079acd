"""Write values for people: numbers, times, durations, sizes, bytes and hostile text.

Each function returns plain text; the templates escape it. Times are shown in UTC.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Final, NamedTuple

from consumer.core.history.wording import span, timestamp
from consumer.core.text.printable import printable

MARKS_MAX: Final = 3  #: combining marks on one character; more of them would cover the lines around it
HEX_COLUMNS: Final = 16


def visible(text: str) -> str:
    """Return *text* with control, bidirectional and piled-up combining characters escaped."""
    if text.isascii():
        return printable(text)
    shown, marks = [], 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        shown.append(f"\\u{ord(char):04x}" if marks > MARKS_MAX else printable(char))
    return "".join(shown)


def block(text: str) -> str:
    """Return text of several lines: as :func:`visible`, with line breaks and tabs kept."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in lines)


class Shown(NamedTuple):
    """Bytes as people can read them."""

    text: str
    is_hex: bool


def content(body: bytes) -> Shown:
    """Return bytes as text if they are UTF-8 without odd control characters, otherwise as a hex dump."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        if error.start < len(body) - 3 or error.reason != "unexpected end of data":
            return Shown(hex_dump(body), True)
        text = body[: error.start].decode()  # the body was cut within a character
    if any(char < " " and char not in "\t\r\n" for char in text):
        return Shown(hex_dump(body), True)
    return Shown(block(text), False)


def hex_dump(body: bytes) -> str:
    """Return bytes as lines of offset, hexadecimal digits and ASCII."""
    return "\n".join(_hex_line(body, at) for at in range(0, len(body), HEX_COLUMNS))


def _hex_line(body: bytes, at: int) -> str:
    part = body[at : at + HEX_COLUMNS]
    text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
    return f"{at:06x}  {part[:8].hex(' '):23}  {part[8:].hex(' '):23}  {text}"


def number(value: float | None) -> str:
    """Return a count or a rate: 12, 1,204, 0.4; a dash if it is unknown."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash, as a number that is unknown is shown
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}"


def percent(ratio: float | None) -> str:
    """Return a ratio as a percentage that never rounds up to 100 %; a dash if it is unknown."""
    if ratio is None:
        return "–"  # noqa: RUF001 - as above
    hundredths = int(ratio * 1_000 + 1e-9) / 10
    return f"{hundredths:g} %"


def duration(seconds: float | None) -> str:
    """Return a duration: 12 ms, 1.5 s, 2 min 5 s; a dash if it is unknown."""
    return "–" if seconds is None else span(max(0.0, seconds))  # noqa: RUF001 - as above


def short_duration(seconds: float) -> str:
    """Return a duration in its largest unit: 40 s, 12 min, 5 h, 3 d."""
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def size(count: int) -> str:
    """Return a number of bytes: 512 B, 1.5 kB, 2.0 MB."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def clock_time(at: float, now: float) -> str:
    """Return the time of day in UTC, with the date unless it is that of *now*."""
    moment, today = _moment(at), _moment(now)
    if moment is None or today is None:
        return f"{at:g}"
    return moment.strftime("%H:%M:%S" if moment.date() == today.date() else "%d %b %Y %H:%M")


def full_time(at: float) -> str:
    """Return date and time in UTC with milliseconds."""
    moment = _moment(at)
    return f"{at:g}" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def machine_time(at: float) -> str:
    """Return a time for the attribute ``datetime``."""
    return timestamp(at) or ""


def ago(at: float, now: float) -> str:
    """Return how long ago *at* was, or in how long it is."""
    return f"in {short_duration(at - now)}" if at > now else f"{short_duration(now - at)} ago"


def brief(text: str, most: int = 120) -> str:
    """Return at most *most* characters of *text*, with a mark where it was cut."""
    return text if len(text) <= most else text[:most] + "…"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: 1 delivery, 1,200 deliveries."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def _moment(at: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return None
