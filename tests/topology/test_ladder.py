"""The path over the rungs: never early, few hops, a short remaining time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.ladder import RUNGS_S, Ladder, choose_rung, first_hop_s, next_hop_s, wait_key

LADDER = Ladder()
SHORT = Ladder(rungs_s=(0.05, 0.1, 0.2), hold_s=0.02)


def walk(wanted_s: float, ladder: Ladder, *, exact: bool = False) -> tuple[list[float], float]:
    """Return the rungs of one wait, and the remaining seconds that the worker waits."""
    hops = [first_hop_s(wanted_s, ladder)]
    while (hop := next_hop_s(wanted_s - sum(hops), wanted_s, ladder, exact=exact)) is not None:
        hops.append(hop)
    return hops, wanted_s - sum(hops)


def test_the_default_ladder_is_the_documented_one() -> None:
    """37 rungs from 0.25 s to 24 h, ascending."""
    assert len(RUNGS_S) == 37
    assert (RUNGS_S[0], RUNGS_S[-1]) == (0.25, 86_400.0)
    assert list(RUNGS_S) == sorted(set(RUNGS_S))


@pytest.mark.parametrize(
    ("wanted_s", "rung_s"),
    [(0.0, None), (0.249, None), (0.25, 0.25), (1.49, 1.0), (1.5, 1.5), (90_000.0, 86_400.0)],
)
def test_a_rung_comes_back_no_later_than_wanted(wanted_s: float, rung_s: float | None) -> None:
    """The rung is at or below the wanted wait; no rung is chosen if even the shortest is too long."""
    assert choose_rung(wanted_s, RUNGS_S) == rung_s


def test_a_negative_delay_is_a_bug() -> None:
    """choose_rung raises ValueError for a negative wait."""
    with pytest.raises(ValueError, match="negative"):
        choose_rung(-0.1, RUNGS_S)


@pytest.mark.parametrize("wanted_s", [-5.0, 0.0, 0.1])
def test_there_is_always_a_first_hop(wanted_s: float) -> None:
    """Even for the shortest wait, a rung stores the failure before the ack."""
    assert first_hop_s(wanted_s, LADDER) == 0.25


@given(st.floats(0, 100_000), st.booleans())
def test_the_rest_is_short_and_never_early(wanted_s: float, exact: bool) -> None:
    """After the first hop no path exceeds its wait, and the remaining time for the worker is short.

    It is at most 1 s, or 2 % of the wait (not for a Retry-After, which is exact), and never over 10 s.
    """
    hops, rest_s = walk(wanted_s, LADDER, exact=exact)

    bound_s = 1.0 if exact else max(1.0, min(0.02 * wanted_s, 10.0))
    assert rest_s <= bound_s
    assert rest_s >= 0 or hops == [0.25]
    assert len(hops) <= 20


@pytest.mark.parametrize(("wanted_s", "most"), [(1.5, 1), (8.9, 1), (30.9, 1), (110.0, 2)])
def test_usual_waits_take_few_hops(wanted_s: float, most: int) -> None:
    """A wait just above a rung takes only that rung."""
    assert len(walk(wanted_s, LADDER)[0]) <= most


def test_retry_after_is_exact() -> None:
    """Fault 39: the 2 % rule does not apply to an exact wait."""
    assert next_hop_s(2.0, 120.0, LADDER) is None
    assert next_hop_s(2.0, 120.0, LADDER, exact=True) == 2.0


def test_nothing_is_held_for_long() -> None:
    """A remaining time over 10 s takes another rung, so that no worker keeps it unacked."""
    assert next_hop_s(600.0, 86_400.0, LADDER) == 480.0
    assert next_hop_s(9.9, 86_400.0, LADDER) is None


def test_a_short_ladder_walks_alike() -> None:
    """A ladder with rungs of tenths of a second leaves hundredths."""
    hops, rest_s = walk(0.37, SHORT)

    assert hops == [0.2, 0.1, 0.05]
    assert 0 <= rest_s <= 0.02 + 1e-9


def test_a_rest_below_the_shortest_rung_is_held() -> None:
    """If every rung would return the message too late, the worker waits itself."""
    assert next_hop_s(4.0, 9.0, Ladder(rungs_s=(5.0,))) is None


def test_the_wait_key_names_rung_and_due_queue() -> None:
    """One key chooses the rung and, after dead-lettering, the due queue."""
    assert wait_key(0.25, "leveret.due.03") == "250.leveret.due.03"
