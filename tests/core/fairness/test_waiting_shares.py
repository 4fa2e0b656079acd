"""No tenant fills the room of the waiting deliveries for all others."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.waiting_shares import SHORTEST_S, SLOTS, WaitingShares, has_too_much

PUTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(1, 1_000),
        st.sampled_from([0.25, 2.0, 60.0, 3600.0]),
        st.floats(0, 90),
    ),
    max_size=60,
)


@given(PUTS)
def test_a_message_counts_for_its_wait_and_a_sixteenth_longer_at_most(
    puts: list[tuple[str, int, float, float]],
) -> None:
    """Never shorter, and after all waits nothing is left."""
    shares, now, ends = WaitingShares(), 0.0, list[tuple[float, float, str, int]]()
    for tenant, size, wait_s, pause_s in puts:
        now += pause_s
        shares.add(tenant, size, wait_s, now)
        ends.append((now + wait_s, now + wait_s + max(wait_s / SLOTS, SHORTEST_S), tenant, size))
        least = sum(size for end, _, _, size in ends if end > now)
        most = sum(size for _, end, _, size in ends if end >= now)
        assert least <= shares.total_bytes <= most
        by_tenant = defaultdict[str, int](int)
        for end, _, owner, size_of in ends:
            by_tenant[owner] += size_of if end > now else 0
        for owner, held in by_tenant.items():
            assert shares.ratio(owner) * shares.total_bytes >= held - 1e-6

    shares.advance(now + 4_000.0)
    assert shares.total_bytes == 0
    assert shares.ratio("a") == 0


@given(st.lists(st.integers(0, 9), min_size=1, max_size=400))
def test_dead_tenants_never_take_all_of_the_room(order: list[int]) -> None:
    """However many tenants fill it, in any order, room is left for one more."""
    limit, held = 100_000.0, defaultdict[int, float](float)
    for _ in range(8):
        for tenant in order:
            waiting = sum(held.values())
            ratio = held[tenant] / waiting if waiting else 0.0
            if not has_too_much(ratio, waiting, limit):
                held[tenant] += 500.0

    waiting = sum(held.values())
    assert waiting < limit
    assert not has_too_much(0.0, waiting, limit)


@pytest.mark.parametrize(
    ("ratio", "waiting", "refused"), [(1.0, 50.0, False), (1.0, 51.0, True), (0.2, 80.0, False)]
)
def test_one_tenant_gets_half_and_the_others_the_rest(ratio: float, waiting: float, refused: bool) -> None:
    """Of a limit of 100."""
    assert has_too_much(ratio, waiting, 100.0) is refused
