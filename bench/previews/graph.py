"""Draw the lines and the states of a panel as SVG."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Any, Final

from bench.previews.answers import STEPS, Line
from bench.previews.units import colour_of, written

PALETTE: Final = (
    *("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1"),
    *("#ba43a9", "#705da0", "#508642", "#cca300", "#447ebc", "#c15c17"),
)
LEFT, BOTTOM, TOP = 62, 18, 6
TICKS = 4
GAP_STEPS = 2.5  #: points further apart, in steps, are not joined by a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The size of a drawing and the time that it shows."""

    width: float
    height: float
    start: float
    end: float

    def x(self, at: float) -> float:
        """Return the place of a time."""
        return LEFT + (self.width - LEFT - 4) * (at - self.start) / (self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark on every graph, such as the start of a worker."""

    at: float
    colour: str


def graph(panel: Mapping[str, Any], lines: Sequence[Line], frame: Frame, marks: Sequence[Mark]) -> str:
    """Return the lines of a time series, stacked if the panel says so, with its axes and marks."""
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal"
    drawn = list(_stacked(lines)) if stacked else [line.points for line in lines]
    top = max([1e-9, *(value for points in drawn for _, value in points)])
    top = max(top, defaults["max"]) if "max" in defaults else top * 1.05
    floor = frame.height - BOTTOM

    def y(value: float) -> float:
        return floor - (floor - TOP) * min(value / top, 1)

    parts = [*_axes(frame, top, defaults["unit"]), *_mark_lines(frame, marks)]
    for step in defaults.get("thresholds", {}).get("steps", ()):
        if step.get("value") and step["value"] <= top:
            place = f'x1="{LEFT}" x2="{frame.width}" y1="{y(step["value"]):.1f}" y2="{y(step["value"]):.1f}"'
            parts.append(f'<line {place} class="limit {step["color"]}"/>')
    for number, points in reversed(list(enumerate(drawn))):
        colour = PALETTE[number % len(PALETTE)]
        for piece in _pieces(points, frame):
            path = " ".join(f"{frame.x(at):.1f},{y(value):.1f}" for at, value in piece)
            first, last = frame.x(piece[0][0]), frame.x(piece[-1][0])
            area = f"{first:.1f},{floor} {path} {last:.1f},{floor}"
            opacity = 0.4 if stacked else 0.1
            parts.append(f'<polygon points="{area}" fill="{colour}" fill-opacity="{opacity}"/>')
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
    return _svg(frame, parts)


def _stacked(lines: Sequence[Line]) -> Iterator[list[tuple[float, float]]]:
    """Yield each line on top of the ones before."""
    times = sorted({at for line in lines for at, _ in line.points})
    values = [dict(line.points) for line in lines]
    sums = {at: list(accumulate(each.get(at, 0.0) for each in values)) for at in times}
    for number in range(len(lines)):
        yield [(at, sums[at][number]) for at in times]


def _pieces(points: Sequence[tuple[float, float]], frame: Frame) -> Iterator[list[tuple[float, float]]]:
    """Yield the parts of a line between its gaps."""
    gap = GAP_STEPS * (frame.end - frame.start) / STEPS
    piece: list[tuple[float, float]] = []
    for point in points:
        if piece and point[0] - piece[-1][0] > gap:
            yield piece
            piece = []
        piece.append(point)
    if piece:
        yield piece


def timeline(panel: Mapping[str, Any], lines: Sequence[Line], frame: Frame) -> str:
    """Return a bar of time for each name, in the colours of its values."""
    thresholds = panel["fieldConfig"]["defaults"].get("thresholds")
    height = min(26.0, (frame.height - BOTTOM) / max(1, len(lines)))
    wide = 12 + 6.4 * max([0, *(len(line.name) for line in lines)])
    parts = list(_times(frame, wide))
    for number, line in enumerate(lines):
        top = number * height
        parts.append(
            f'<text x="{wide - 6}" y="{top + height * 0.65:.1f}" text-anchor="end">{escape(line.name)}</text>'
        )
        for (at, value), (next_at, _) in zip(line.points, [*line.points[1:], (frame.end, 0.0)], strict=True):
            until = min(next_at, at + GAP_STEPS * (frame.end - frame.start) / STEPS)
            left, right = (_right_of(frame, wide, each) for each in (at, until))
            parts.append(
                f'<rect x="{left:.1f}" width="{max(0.5, right - left + 0.3):.1f}" y="{top + 2:.1f}" '
                f'height="{height - 4:.1f}" class="{colour_of(value, thresholds)}"/>'
            )
    return _svg(frame, parts)


def _right_of(frame: Frame, wide: float, at: float) -> float:
    return wide + (frame.width - wide - 4) * (at - frame.start) / (frame.end - frame.start)


def _times(frame: Frame, left: float = LEFT) -> Iterator[str]:
    """Yield the times under a drawing."""
    for number in range(TICKS + 1):
        at = frame.start + (frame.end - frame.start) * number / TICKS
        anchor = "end" if number == TICKS else "middle" if number else "start"
        text = time.strftime("%H:%M", time.gmtime(at))
        x = _right_of(frame, left, at)
        yield f'<text x="{x:.1f}" y="{frame.height - 4}" text-anchor="{anchor}" class="weak">{text}</text>'


def _axes(frame: Frame, top: float, unit: str) -> Iterator[str]:
    floor = frame.height - BOTTOM
    for number in range(TICKS + 1):
        at = floor - (floor - TOP) * number / TICKS
        yield f'<line x1="{LEFT}" x2="{frame.width}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>'
        text = written(top * number / TICKS, unit)
        yield f'<text x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end" class="weak">{text}</text>'
    yield from _times(frame)


def _mark_lines(frame: Frame, marks: Sequence[Mark]) -> Iterator[str]:
    for mark in marks:
        x, floor = frame.x(mark.at), frame.height - BOTTOM
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{floor}" stroke="{mark.colour}" '
            'stroke-dasharray="4 3"/>'
        )


def _svg(frame: Frame, parts: Sequence[str]) -> str:
    return f'<svg width="{frame.width}" height="{frame.height}">{"".join(parts)}</svg>'
