"""Durations and times as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.errors import ConfigError
from consumer.core.text.durations import format_duration, parse_duration, parse_moment

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize("text", ["366000d", "9" * 20 + "d", "9" * 400 + "w"])
def test_a_duration_beyond_the_calendar_is_refused(text: str) -> None:
    """A time that long ago could not be written."""
    with pytest.raises(ConfigError, match="1,000 years"):
        parse_duration(text)
    with pytest.raises(ConfigError):
        parse_moment(text, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1.5h", 5400),
        ("7d", 604_800),
        ("1h30m", 5400),
        ("2 h 5 min", 7500),
        ("250ms", 0.25),
        ("0s", 0),
    ],
)
def test_reads(text: str, seconds: float) -> None:
    """S1-13: ``purge`` and ``list`` accept an age such as ``7d``."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "7", "d", "-1h", "1y", "1h x", "x 1h", "1h,5m", "nan s", "٣h"])
def test_refuses_with_a_remedy(text: str) -> None:
    """An error names the fault and the remedy; a number without a unit is refused."""
    with pytest.raises(ConfigError, match=r"write a number and a unit: 90s, 30m, 2h, 7d"):
        parse_duration(text)


@given(st.integers(0, 10_000_000))
def test_written_values_can_be_read(seconds: int) -> None:
    """Every duration that Leveret prints can be read back."""
    assert parse_duration(format_duration(float(seconds))) == seconds


def test_a_moment_is_a_time_or_an_age() -> None:
    """``--since`` accepts a time and an age."""
    assert parse_moment("2h", NOW) == NOW - 7200
    assert parse_moment("2025-12-31T23:00:00Z", NOW) == NOW - 3600
    assert parse_moment("2026-01-01T01:00:00+01:00", NOW) == NOW
    with pytest.raises(ConfigError, match="neither a time nor a duration"):
        parse_moment("yesterday", NOW)
