"""Which tenants have series of their own: the busiest, and not in turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.top_tenants import AHEAD, LEAST, MOST_AT_ONCE, exchanges

COUNTS = st.integers(0, 2_000)
OWN = st.dictionaries(st.sampled_from([f"own{n}" for n in range(30)]), COUNTS)
OTHERS = st.dictionaries(st.sampled_from([f"other{n}" for n in range(30)]), COUNTS)


def test_the_busiest_take_the_place_of_the_least_busy() -> None:
    """S1-9: a flood has a name on the dashboard, however many tenants there are."""
    own = {"idle": 0, "calm": 100, "busy": 5_000}
    others = {"flood": 90_000, "some": 199, "few": 10}

    assert exchanges(own, others) == [("idle", "flood")]
    assert exchanges(own, others | {"some": 200}) == [("idle", "flood"), ("calm", "some")]


def test_few_jobs_take_nobodys_place() -> None:
    """Where hardly anything happens, the names stay."""
    assert exchanges({"idle": 0}, {"new": LEAST - 1}) == []
    assert exchanges({"idle": 0}, {"new": LEAST}) == [("idle", "new")]


@given(OWN, OTHERS)
def test_nobody_comes_back_at_once_and_few_change_places(own: dict[str, int], others: dict[str, int]) -> None:
    """With the same counts again only the postponed changes are made."""
    pairs = exchanges(own, others)

    assert len(pairs) <= MOST_AT_ONCE
    assert len({name for pair in pairs for name in pair}) == 2 * len(pairs)
    for old, new in pairs:
        assert others[new] >= AHEAD * own[old]
        own[new], others[old] = others.pop(new), own.pop(old)
    if len(pairs) < MOST_AT_ONCE:
        assert exchanges(own, others) == []
