"""The waits of each class of tenants, as a table and as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10

SHARES = (0.5, 0.95, 0.99)
WIDTH, ROW, LEFT, RIGHT, TOP = 760, 22, 210, 130, 64
LEAST_S, MOST_S = 0.001, 1000.0  #: ends of the axis
COLOURS = {"one shared queue": "#b23b3b", "Leveret": "#1f6f54"}


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the events of one class waited."""

    events: int
    quantiles_s: tuple[float, ...]  #: at :data:`SHARES`


def waits_of(waits: Sequence[float]) -> Waits:
    """Return the quantiles of *waits*.

    Raises:
        ValueError: there are no waits.
    """
    if not waits:
        raise ValueError("no event waited")
    ordered = sorted(waits)
    return Waits(len(ordered), tuple(ordered[min(len(ordered) - 1, int(len(ordered) * s))] for s in SHARES))


def seconds(value: float) -> str:
    """Write a wait as one reads it."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def table(found: Mapping[str, Mapping[str, Waits]]) -> str:
    """Return a Markdown table: a line for each class and way."""
    lines = ["| tenants | way | events | p50 | p95 | p99 |", "|---|---|---|---|---|---|"]
    for kind, ways in found.items():
        for way, waits in ways.items():
            cells = " | ".join(map(seconds, waits.quantiles_s))
            lines.append(f"| {kind} | {way} | {waits.events:,} | {cells} |")
    return "\n".join(lines) + "\n"


def svg(found: Mapping[str, Mapping[str, Waits]], title: str) -> str:
    """Draw a bar from p50 to p99 for each class and way, p95 marked, on a logarithmic axis."""
    rows = [(kind, way, waits) for kind, ways in found.items() for way, waits in ways.items()]
    height = TOP + ROW * len(rows) + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="22" font-size="14" font-weight="bold">{escape(title)}</text>',
        '<text x="12" y="42" fill="#555">wait from publish to start: p50 to p99, p95 marked</text>',
        *_axis(height),
        *(part for at, row in enumerate(rows) for part in _bar(at, *row)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(value_s: float) -> float:
    share = log10(min(MOST_S, max(LEAST_S, value_s)) / LEAST_S) / log10(MOST_S / LEAST_S)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _axis(height: int) -> list[str]:
    parts = []
    for exponent in range(-3, 4):
        x, label = _x(10.0**exponent), seconds(10.0**exponent).replace(".0", "")
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 28}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle" fill="#555">{label}</text>')
    return parts


def _bar(at: int, kind: str, way: str, waits: Waits) -> list[str]:
    y, colour = TOP + ROW * at + ROW / 2, COLOURS[way]
    first, middle, last = map(_x, waits.quantiles_s)
    text = f"p95 {seconds(waits.quantiles_s[1])}"
    return [
        f'<text x="12" y="{y + 4:.1f}">{escape(kind)}</text>',
        f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end" fill="{colour}">{escape(way)}</text>',
        f'<line x1="{first:.1f}" y1="{y}" x2="{max(last, first + 1):.1f}" y2="{y}" '
        f'stroke="{colour}" stroke-width="8" stroke-opacity="0.5"/>',
        f'<circle cx="{middle:.1f}" cy="{y}" r="5" fill="{colour}"/>',
        f'<text x="{WIDTH - 12}" y="{y + 4:.1f}" text-anchor="end">{text}</text>',
    ]
