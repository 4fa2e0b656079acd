"""The simulated outages of the proof: the real flow drains them in time (fault 83)."""

from __future__ import annotations

from bench.loss.hang_simulated import Case, compare, simulated
from consumer.core.endpoint.reservations import AHEAD_S


def test_time_outs_drain_as_soon_as_503() -> None:
    """Time-outs say nothing of how fast the backlog may go: it used to take hours, and minutes with 503."""
    hung, failed = compare(Case(3.0, 300.0, 1))

    assert hung.seconds <= 1.5 * failed.seconds
    assert (hung.parked, hung.missing, failed.parked, failed.missing) == (0, 0, 0, 0)


def test_what_an_outage_put_off_before_the_breaker_opened_comes_soon_too() -> None:
    """The breaker opens after 45 of 60 s; what its slots held back until then is given moments just ahead."""
    hung = simulated(Case(20.0, 60.0, 2), hangs=True)

    assert hung.seconds <= AHEAD_S
    assert (hung.parked, hung.missing) == (0, 0)
