"""Write and read durations in the form that people use."""

from __future__ import annotations

import re
from typing import Final

from consumer.core.errors import ConfigError
from consumer.core.text.rfc3339 import parse_ms

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
MOST_S: Final = 1_000 * 365.25 * 86_400.0
"""Longest duration: with it, a time before or after now stays within the years of RFC 3339."""
_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|min|[smhdw])", re.ASCII)


def format_duration(seconds: float) -> str:
    """Write *seconds* in units that people use: 0.25 s, 1 min 30 s, 2 h, 75 h 35 min 5 s."""
    if seconds < 60:
        return f"{seconds:g} s"
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "min"), (left, "s"))
    return " ".join(f"{value:g} {unit}" for value, unit in parts if value)


def parse_duration(text: str) -> float:
    """Read a duration such as ``90s``, ``1.5h``, ``7d`` or ``1h30m`` and return its seconds.

    Raises:
        ConfigError: *text* is not a duration, or longer than 1,000 years. A bare number is refused because
            it has no unit.
    """
    total, at = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != at:
            break
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if at == 0 or text[at:].strip():
        raise ConfigError(f"{text!r} is not a duration; write a number and a unit: 90s, 30m, 2h, 7d")
    if total > MOST_S:
        raise ConfigError(f"{text[:40]!r} is longer than 1,000 years; write a shorter time")
    return total


def parse_moment(text: str, now: float) -> float:
    """Read a time, or a duration counted back from now, and return Unix seconds.

    Args:
        text: RFC 3339 such as ``2026-01-02T03:04:05Z``, or a duration such as ``2h``.
        now: Unix seconds.

    Raises:
        ConfigError: *text* is neither a time nor a duration.
    """
    moment_ms = parse_ms(text)
    if moment_ms is not None:
        return moment_ms / 1000
    try:
        return now - parse_duration(text)
    except ConfigError:
        raise ConfigError(
            f"{text!r} is neither a time nor a duration; write 2026-01-02T03:04:05Z, or 2h for two hours ago"
        ) from None
