"""The path around rungs that do not give back: never early, and never on them while another rung will do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from topology.ladder import HOPS_MAX, LATER_S, RUNGS_S, Ladder, first_hop_s, next_hop_s

LADDER = Ladder()


def test_the_rung_below_is_taken() -> None:
    """A wait of 8 s avoids its rung by 6 s and then 2 s."""
    assert first_hop_s(8.0, LADDER, {8.0}) == 6.0
    assert next_hop_s(2.0, 8.0, LADDER, {8.0}, exact=True) == 2.0


def test_without_a_rung_below_the_next_one_above_is_taken() -> None:
    """A delivery a little later is better than one that stays."""
    assert first_hop_s(0.0, LADDER, {0.25}) == 0.5
    assert first_hop_s(3.0, LADDER, set(RUNGS_S[:7])) == 4.0


def test_nothing_waits_for_an_hour_instead_of_a_second() -> None:
    """If only much longer rungs give back, the usual rung is taken: it may recover."""
    rungs_s = {rung_s for rung_s in RUNGS_S if rung_s < 3600}

    assert first_hop_s(3.0, LADDER, rungs_s) == 3.0
    assert next_hop_s(30.0, 60.0, LADDER, rungs_s) == 30.0


def test_if_no_rung_gives_back_the_usual_ones_are_taken() -> None:
    """A publish must go somewhere."""
    assert first_hop_s(8.0, LADDER, set(RUNGS_S)) == 8.0


@given(st.floats(0, 100_000), st.sets(st.sampled_from(RUNGS_S)), st.booleans())
def test_every_wait_ends_and_none_is_early(wanted_s: float, avoided: set[float], exact: bool) -> None:
    """Whatever is avoided: the path is finite, and late by a minute at most."""
    hops = [first_hop_s(wanted_s, LADDER, avoided)]
    while (hop := next_hop_s(wanted_s - sum(hops), wanted_s, LADDER, avoided, exact=exact)) is not None:
        hops.append(hop)
        assert len(hops) <= 50

    assert wanted_s - sum(hops) <= 10.0
    assert sum(hops) <= max(wanted_s, RUNGS_S[0]) + LATER_S


@given(st.floats(0, 100_000), st.sets(st.sampled_from(RUNGS_S)))
def test_a_stuck_rung_is_taken_only_without_another_one(wanted_s: float, avoided: set[float]) -> None:
    """No hop takes an avoided rung while another one fits."""
    others = [rung_s for rung_s in RUNGS_S if rung_s not in avoided]
    fits = any(wanted_s / HOPS_MAX <= rung_s <= wanted_s + LATER_S for rung_s in others)

    assert (first_hop_s(wanted_s, LADDER, avoided) in others) >= fits


def test_a_short_rung_does_not_take_a_long_wait() -> None:
    """A day in steps of a quarter of a second would overload the broker."""
    assert first_hop_s(86_400.0, LADDER, set(RUNGS_S[1:])) == 86_400.0
