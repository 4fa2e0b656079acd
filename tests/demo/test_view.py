"""Promises of demo.view: the picture fits on a small terminal and shows the state."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from demo import view
from demo.account import Row
from demo.cast import ENDPOINTS, TENANTS
from demo.headlines import NOTHING
from demo.view import Snapshot

BREAKERS = {"dead": "probing", "gone": "disabled", "flaky": "open"}


def snapshot(count: int) -> Snapshot:
    """Return a snapshot with *count* in every cell."""
    rows = [
        Row(
            endpoint=endpoint,
            requests=count,
            delivered=count,
            waiting=count,
            parked=count,
            unmatched=count,
            half_s=0.004 * count,
            most_s=None,
        )
        for endpoint in ENDPOINTS
    ]
    return Snapshot(
        seconds=60.0,
        rows=rows,
        events=dict.fromkeys(TENANTS, count),
        events_per_s=20.0,
        deliveries_per_s=32.5,
        breakers=BREAKERS,
        headline=NOTHING,
        links=[("health", "http://127.0.0.1:30000/readyz")] * 3 + [("given up", "x" * 60)] * 2,
    )


@pytest.mark.parametrize("count", [0, 7, 4_321])
def test_the_picture_fits_on_80_columns_and_24_lines(count: int) -> None:
    """A person understands it in ten seconds: nothing is cut off, nothing scrolls away."""
    out = io.StringIO()

    Console(file=out, width=80, height=24).print(view.live(snapshot(count)))

    lines = out.getvalue().splitlines()
    text = out.getvalue()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    for endpoint in ENDPOINTS:
        [line] = [line for line in lines if line.startswith(endpoint.name)]
        assert endpoint.does in line
        assert line.count(f"{count:,}") >= 4
        assert BREAKERS.get(endpoint.name, "closed") in line
    for word in ("20 events/s", "32 deliveries/s", "Ctrl-C ends it", "now: ", *TENANTS, f"{6 * count:,}"):
        assert word in text


def test_a_moment_in_one_line() -> None:
    """Without a terminal, a line shows the progress."""
    assert view.line(snapshot(7)) == f" 60 s: 35 events, 42 delivered, 42 waiting, 42 parked; {NOTHING}"


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.0042, "4 ms"), (0.9994, "999 ms"), (2.04, "2.0 s")]
)
def test_times_are_written_as_people_do(seconds: float | None, text: str) -> None:
    """Milliseconds below a second, tenths of a second above."""
    assert view.span(seconds) == text
