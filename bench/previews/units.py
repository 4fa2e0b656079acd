"""Write a number as Grafana does: by its unit, its threshold's colour, its word."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

RATES: Final[Mapping[str, str]] = {
    "reqps": "req/s",
    "ops": "ops/s",
    "eps": "evt/s",
    "mps": "msg/s",
    "cpm": "/min",
}
SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
AGES: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def written(value: float, unit: str) -> str:
    """Return *value* with its unit."""
    if math.isnan(value):
        return "-"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return _span(value)
    if unit == "bytes":
        return _scaled(value, 1_024, ("B", "KiB", "MiB", "GiB", "TiB"))
    if unit == "dateTimeFromNow":
        return _ago(time.time() - value / 1_000)
    if unit in RATES:
        return f"{_short(value)} {RATES[unit]}"
    return _short(value)


def _short(value: float) -> str:
    return _scaled(value, 1_000, ("", "K", "Mil", "Bil"))


def _scaled(value: float, base: int, names: Sequence[str]) -> str:
    size = 0
    while abs(value) >= base and size < len(names) - 1:
        value /= base
        size += 1
    return f"{value:.3g} {names[size]}".rstrip()


def _span(value: float) -> str:
    for seconds, name in SPANS:
        if abs(value) >= seconds:
            return f"{value / seconds:.3g} {name}"
    return f"{value * 1_000:.3g} ms" if value else "0 s"


def _ago(age_s: float) -> str:
    for seconds, name in AGES:
        if age_s >= seconds:
            count = int(age_s // seconds)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "now"


def colour_of(value: float, thresholds: Mapping[str, Any] | None) -> str:
    """Return the colour of the highest threshold that *value* reaches."""
    colour = ""
    for step in (thresholds or {}).get("steps", ()):
        if step.get("value") is None or value >= step["value"]:
            colour = step["color"]
    return colour


def word_of(value: float, mappings: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the word that a panel or a column shows instead of *value*."""
    for mapping in mappings:
        found = mapping["options"].get(f"{value:g}")
        if found is not None:
            return str(found["text"])
    return None
