"""Compute the points of small charts, in the units of their SVG view box.

Data flow: :class:`Series` -> :func:`sparkline` -> the macro ``sparkline``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from consumer.web.pages.views.parts import Series

WIDTH: Final = 240
HEIGHT: Final = 48
_MARGIN: Final = 3  #: above and below, so that the line is not cut


class Spark(NamedTuple):
    """A sparkline; a gap in the numbers divides it into several lines."""

    lines: tuple[str, ...]  #: attribute ``points`` of polylines
    areas: tuple[str, ...]  #: attribute ``points`` of polygons below them


def sparkline(series: Series) -> Spark:
    """Return the lines of *series*; empty if it has no two numbers in a row."""
    known = [value for value in series.values if value is not None]
    if len(known) < 2:
        return Spark((), ())
    low = min(known) if series.low is None else min(series.low, *known)
    high = max(known) if series.high is None else max(series.high, *known)
    parts: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(series.values):
        if value is None:
            parts.append([])
        else:
            parts[-1].append((index * WIDTH / (len(series.values) - 1), _height(value, low, high)))
    drawn = [part for part in parts if len(part) > 1]
    return Spark(
        tuple(map(_points, drawn)),
        tuple(_points([(part[0][0], HEIGHT), *part, (part[-1][0], HEIGHT)]) for part in drawn),
    )


def _height(value: float, low: float, high: float) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return HEIGHT - _MARGIN - share * (HEIGHT - 2 * _MARGIN)


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
