"""Times as RFC 3339 text in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.text import rfc3339


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2022-11-03T20:26:10.344522Z", "2022-11-03T20:26:10.344522Z"),
        ("2022-11-03T20:26:10.3445220000Z", "2022-11-03T20:26:10.3445220000Z"),
        ("2022-11-03t20:26:10z", "2022-11-03T20:26:10Z"),
        ("2022-11-03 20:26:10Z", "2022-11-03T20:26:10Z"),
        ("2022-11-03T20:26:10.5+01:30", "2022-11-03T18:56:10.5Z"),
        ("2022-12-31T20:00:00-05:00", "2023-01-01T01:00:00Z"),
        ("2022-11-03T20:26:10-00:00", "2022-11-03T20:26:10Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:60Z"),
        ("2017-01-01T00:59:60+01:00", "2016-12-31T23:59:60Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("2022-11-03T20:26:60Z", None),
        ("2022-13-03T20:26:10Z", None),
        ("2022-02-29T20:26:10Z", None),
        ("2022-11-03T24:00:00Z", None),
        ("2022-11-03T20:26:10", None),
        ("2022-11-03T20:26:10+24:00", None),
        ("2022-11-03T20:26:10+01:60", None),
        ("2022-11-03T20:26:10.Z", None),
        ("2022-11-03T20:26Z", None),
        ("2022-11-03", None),
        ("0001-01-01T00:00:00+01:00", None),
        ("9999-12-31T23:59:59-01:00", None),
        ("２０22-11-03T20:26:10Z", None),
        ("2022-11-03T20:26:10Z\n", None),
        ("2022-11-03T20:26:10." + "1" * 31 + "Z", None),
        ("", None),
    ],
)
def test_times_come_out_in_utc(text: str, expected: str | None) -> None:
    """SW-22: RFC 3339 becomes RFC 3339 in UTC with the same digits; any other text gives None."""
    assert rfc3339.normalise(text) == expected


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=-30))])))
def test_datetimes_keep_their_moment(moment: datetime) -> None:
    """SW-22: a datetime and its text name the same moment."""
    text = rfc3339.from_datetime(moment)

    if text is not None:  # else its UTC time is beyond the year 9999 or before 1
        assert rfc3339.normalise(text) == text
        assert datetime.fromisoformat(text) == moment


@given(st.integers(0, rfc3339.MAX_MS))
def test_milliseconds_round_trip(unix_ms: int) -> None:
    """SW-22: text made from milliseconds reads back as the same milliseconds."""
    text = rfc3339.from_ms(unix_ms)

    assert rfc3339.parse_ms(text) == unix_ms
    assert ("." in text) == (unix_ms % 1000 != 0)


@given(st.text() | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"))
def test_no_text_breaks_it(text: str) -> None:
    """Fault 2: any text gives a time or None."""
    utc = rfc3339.normalise(text)
    unix_ms = rfc3339.parse_ms(text)

    assert utc is None or rfc3339.normalise(utc) == utc
    assert unix_ms is None or utc is not None


@pytest.mark.parametrize(
    ("text", "unix_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", None),
        ("2016-12-31T23:59:60.5Z", 1483228799500),
        ("2022-11-03T20:26:10.3449Z", 1667507170344),
        ("x", None),
    ],
)
def test_times_become_milliseconds(text: str, unix_ms: int | None) -> None:
    """SW-22: digits below the millisecond are cut; a leap second counts as the second before it."""
    assert rfc3339.parse_ms(text) == unix_ms
