"""The previews write numbers as Grafana does, and join the values of a table by their labels."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from bench.previews.answers import Line, joined
from bench.previews.graph import Frame, graph, timeline
from bench.previews.units import colour_of, word_of, written
from tests.support.repository.grafana_files import checked_in_panels

STEPS = {
    "steps": [
        {"value": None, "color": "red"},
        {"value": 0.9, "color": "yellow"},
        {"value": 0.98, "color": "green"},
    ]
}
FRAME = Frame(width=400, height=200, start=0, end=100)


def line(value: float, **labels: str) -> Line:
    """Return a line with a single value."""
    return Line(name=",".join(labels.values()), labels=labels, points=[(50.0, value)])


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.934, "percentunit", "93.4 %"),
        (0.25, "s", "250 ms"),
        (90, "s", "1.5 min"),
        (0, "s", "0 s"),
        (3 * 1024**2, "bytes", "3 MiB"),
        (1234, "short", "1.23 K"),
        (7, "reqps", "7 req/s"),
        (float("nan"), "short", "-"),
    ],
)
def test_a_value_is_written_with_its_unit(value: float, unit: str, text: str) -> None:
    """Shares as per cent, times by their size, bytes in powers of 1,024, rates with their name."""
    assert written(value, unit) == text


def test_a_time_is_written_as_its_age() -> None:
    """Grafana's dateTimeFromNow is in milliseconds."""
    assert written(1_000 * (time.time() - 130), "dateTimeFromNow") == "2 minutes ago"


def test_a_value_has_the_colour_of_its_threshold_and_its_word() -> None:
    """The highest threshold that it reaches; a mapped value is a word."""
    mappings = [{"type": "value", "options": {"2": {"text": "open"}}}]

    assert [colour_of(value, STEPS) for value in (0.5, 0.9, 1.0)] == ["red", "yellow", "green"]
    assert word_of(2.0, mappings) == "open"
    assert word_of(1.0, mappings) is None


def test_a_table_joins_its_queries_by_the_labels_that_all_have() -> None:
    """The cause belongs to the row of its subscription; a query without a value leaves its column empty."""
    trouble = [
        line(0.9, subscription="acme/orders", cause="http_5xx"),
        line(0.1, subscription="a/b", cause="dns"),
    ]
    waiting = [line(12, subscription="acme/orders")]

    names, rows = joined([trouble, waiting])

    assert names == ["subscription", "cause"]
    assert rows == [
        ({"subscription": "acme/orders", "cause": "http_5xx"}, {0: 0.9, 1: 12}),
        ({"subscription": "a/b", "cause": "dns"}, {0: 0.1}),
    ]


def test_drawings_name_their_lines_and_are_of_their_size() -> None:
    """A graph has a line for each series; a timeline a bar in the colour of its value."""
    panels: Mapping[str, Mapping[str, object]] = {panel["title"]: panel for panel in checked_in_panels()}
    steady = Line(name="w1", labels={}, points=[(at, 1.0) for at in range(0, 101, 10)])

    drawn = graph(panels["Events"], [steady], FRAME, [])
    states = timeline(panels["Breakers, over time"], [line(2, subscription="acme/orders")], FRAME)

    assert drawn.count("<polyline") >= 1
    assert 'width="400" height="200"' in drawn
    assert "acme/orders" in states
    assert 'class="red"' in states
