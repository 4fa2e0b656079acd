"""Draw log lines for people: one short line each, in colours on a terminal.

Data flow: event and fields -> time, level, event, subscription, the other fields -> one line of text.
Untrusted text is escaped. The lines of a traceback follow, each behind a margin that no other line has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from consumer.core.text.printable import printable

VALUE_MAX: Final = 120  #: characters of a value; the rest is cut
DETAIL_MAX: Final = 400  #: characters of a value that explains a fault
MARGIN: Final = "    | "  #: in front of each line of a traceback
EVENT_WIDTH: Final = 18

_DETAILS: Final = frozenset(("detail", "error", "reason"))
_EXPLAINED: Final = frozenset(
    ("event", "level", "tenant", "subscription", "exception", "suppressed", "wait_s", "next_try_s")
)
_COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31;1"}
_DIM: Final = "2"
_BOLD: Final = "1"


def draw(level: str, now: datetime, fields: Mapping[str, object], *, is_terminal: bool) -> str:
    """Return the line of *fields*, without a line break at its end.

    Args:
        level: Of the line.
        now: In UTC; a terminal gets the time of day, anything else the date too.
        fields: Of the line, with its name under ``event``.
        is_terminal: Whether the line may contain colours.
    """

    def paint(text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if is_terminal else text

    at = now.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    owner = fields.get("subscription") or fields.get("tenant") or ""
    words = [
        paint(at[at.index("T") + 1 :] if is_terminal else at, _DIM),
        paint(level.ljust(7), _COLOURS.get(level, _BOLD)),
        paint(_text(fields["event"], VALUE_MAX).ljust(EVENT_WIDTH), _BOLD),
        *([_text(owner, VALUE_MAX)] if owner else []),
        *(f"{paint(key + '=', _DIM)}{value}" for key, value in _shown(fields)),
        _repeats(fields),
    ]
    return " ".join(words).rstrip() + _traceback(fields.get("exception"))


def _shown(fields: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield name and text of each field that has a value and is not drawn elsewhere.

    The id of a subscription is left out beside its name.
    """
    for key, value in fields.items():
        if key in _EXPLAINED or value is None or value in ("", [], ()):
            continue
        if key == "subscription_id" and fields.get("subscription"):
            continue
        yield printable(key), _text(value, DETAIL_MAX if key in _DETAILS else VALUE_MAX)


def _repeats(fields: Mapping[str, object]) -> str:
    """Return how often the same happened before, and when it is tried again, in words."""
    words = []
    if isinstance(suppressed := fields.get("suppressed"), int) and suppressed:
        words.append(f"{suppressed} more times")
    for wait_s in (fields.get("wait_s"), fields.get("next_try_s")):
        if isinstance(wait_s, float | int) and wait_s:
            words.append(f"next try in {f'{wait_s:.1f}'.removesuffix('.0')} s")
    return f"({', '.join(words)})" if words else ""


def _text(value: object, limit: int) -> str:
    """Return a value as escaped text, or its first *limit* characters.

    Text with spaces is quoted, so that it cannot look like another field.
    """
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else str(round(value, 3))
    text = str(value)[: limit + 1]
    is_quoted = any(char in text for char in ' ="')
    if is_quoted:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    text = printable(text)
    if len(text) > limit:
        text = text[:limit] + "…"
    return f'"{text}"' if is_quoted else text


def _traceback(text: object) -> str:
    if not text:
        return ""
    lines = str(text).split("\n")
    return "".join(f"\n{MARGIN}{printable(line)}" for line in lines)
