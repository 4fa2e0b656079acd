"""Which subscriptions have series of their own: those in most trouble, and not in turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.endpoint.most_troubled import AHEAD, KEPT_S, MOST_AT_ONCE, Holder, choose

WEIGHTS = st.floats(0.01, 20)
HOLDERS = st.dictionaries(
    st.sampled_from([f"own{n}" for n in range(12)]),
    st.builds(Holder, WEIGHTS) | st.builds(Holder, st.just(0.0), st.floats(0, 2 * KEPT_S)),
)
OTHERS = st.dictionaries(st.sampled_from([f"other{n}" for n in range(30)]), WEIGHTS)


@given(st.integers(12, 20), HOLDERS, OTHERS)
def test_places_are_bounded_and_go_to_those_in_most_trouble(
    places: int, holders: dict[str, Holder], others: dict[str, float]
) -> None:
    """Nobody is chosen twice, and nobody without a place is in far more trouble than one that has it."""
    leaves, comes = choose(places, holders, others)
    after = {each: holder.weight for each, holder in holders.items() if each not in leaves}
    after |= {each: others[each] for each in comes}

    assert len(after) == len(holders) - len(leaves) + len(comes) <= places
    assert set(leaves) <= holders.keys()
    assert set(comes) <= others.keys()
    assert not any(h.well_s >= KEPT_S for each, h in holders.items() if each in after)
    rest = [weight for each, weight in others.items() if each not in comes]
    if len(after) < places:
        assert not rest
    elif rest and len(leaves) < MOST_AT_ONCE:
        assert max(rest) <= AHEAD * min(after.values())


@given(st.integers(1, 20), OTHERS)
def test_the_same_trouble_again_changes_nothing(places: int, others: dict[str, float]) -> None:
    """Series do not come and go while nothing changes."""
    comes = choose(places, {}, others).comes
    holders = {each: Holder(others.pop(each)) for each in comes}

    assert choose(places, holders, others) == ([], [])


def test_one_that_recovered_keeps_its_series_while_there_is_room() -> None:
    """Graphs and alerts end with a value; the longest well one makes room first."""
    holders = {"a": Holder(0.0, 10.0), "b": Holder(0.0, 200.0), "c": Holder(1.0)}

    assert choose(4, holders, {"new": 0.5}) == ([], ["new"])
    assert choose(3, holders, {"new": 0.5}) == (["b"], ["new"])
    assert choose(3, holders | {"b": Holder(0.0, KEPT_S)}, {}) == (["b"], [])
    assert choose(3, holders, {"x": 0.5, "y": 1.5}) == (["b", "a"], ["y", "x"])
    assert choose(0, {}, {"new": 5.0}) == ([], [])
