"""A sparkline shows its numbers within its box, and leaves gaps where there are none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.web.pages.charts import HEIGHT, WIDTH, sparkline
from consumer.web.pages.views.parts import Series

NUMBERS = st.lists(st.none() | st.floats(0, 1e9), max_size=70)


@given(NUMBERS)
def test_every_point_is_in_the_box(values: list[float | None]) -> None:
    """No line leaves the view box, whatever the numbers are."""
    drawn = sparkline(Series(values=values))

    for points in (*drawn.lines, *drawn.areas):
        for point in points.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


def test_a_gap_divides_the_line() -> None:
    """A number without neighbours is not drawn."""
    assert len(sparkline(Series(values=[1, 2, None, 3, 4, None, 5])).lines) == 2


def test_too_few_numbers_draw_nothing() -> None:
    """One number is not a line."""
    assert sparkline(Series(values=[1, None])) == ((), ())


def test_equal_numbers_are_a_level_line() -> None:
    """A constant series is in the middle of the box."""
    assert sparkline(Series(values=[7, 7])).lines == (f"0.0,{HEIGHT / 2} {WIDTH:.1f},{HEIGHT / 2}",)


def test_a_scale_that_is_given_is_kept() -> None:
    """A share of 50 % on a scale from 0 to 1 is in the middle."""
    assert sparkline(Series(values=[0.5, 0.5], low=0, high=1)).lines[0].startswith("0.0,24.0")
