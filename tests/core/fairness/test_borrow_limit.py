"""How much one tenant may borrow: all of it alone, less beside others, least while time is short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.accounts import Caps
from consumer.core.fairness.borrow_limit import LATE_S, OTHERS_S, BorrowLimit

CAPS = Caps(capacity=256)  # a quarter: 64; a tenth: 25


def test_alone_a_tenant_has_everything() -> None:
    """One tenant alone gets every slot, even if the loop lags."""
    limit = BorrowLimit(CAPS)

    assert limit.update(0.0) == 256
    limit.served({"a"}, 0.0)
    assert [limit.update(late_s) for late_s in (0.0, 1.0)] == [256, 256]


def test_beside_others_a_tenth_stays_free_until_they_are_idle() -> None:
    """Fault 71: an event of a quiet tenant finds a slot, for a minute after its last one."""
    limit = BorrowLimit(CAPS)
    limit.served({"a", "b"}, 0.0)

    for now in range(0, int(OTHERS_S), 5):
        limit.served({"a"}, float(now))
        assert limit.update(0.0) == 231
    limit.served({"a"}, OTHERS_S)

    assert limit.update(0.0) == 256


def test_two_that_take_turns_are_not_alone() -> None:
    """In no second had both of them work."""
    limit = BorrowLimit(CAPS)
    for now in range(10):
        limit.served({"ab"[now % 2]}, float(now))

    assert not limit.alone


def test_a_late_loop_lowers_the_limit_to_a_quarter_and_raises_it_again() -> None:
    """More requests in flight make a worker without time slower for everybody: halved in three looks."""
    limit = BorrowLimit(CAPS)
    limit.served({"a", "b"}, 0.0)

    sinking = [limit.update(2 * LATE_S) for _ in range(20)]
    rising = [limit.update(0.0) for _ in range(60)]

    assert sinking[2] < 256 / 2
    assert sinking[-1] == 64
    assert rising == sorted(rising)
    assert rising[-1] == 231


@given(
    st.integers(1, 2000),
    st.floats(0.01, 1),
    st.lists(st.tuples(st.floats(0, 1), st.sets(st.sampled_from("abc"))), max_size=50),
)
def test_the_limit_stays_within_its_bounds(
    capacity: int, share: float, looks: list[tuple[float, set[str]]]
) -> None:
    """Never over the capacity, and never so little that a single tenant cannot start one job."""
    caps = Caps(capacity=capacity, share=share)
    limit = BorrowLimit(caps)
    for now, (late_s, tenants) in enumerate(looks):
        limit.served(tenants, float(now))

        allowed = limit.update(late_s)

        assert min(caps.floor, capacity - caps.reserved) <= allowed <= capacity


@pytest.mark.parametrize("late_s", [0.0, 5.0])
def test_a_tenant_may_borrow_the_only_slot(late_s: float) -> None:
    """There is nothing to keep back."""
    limit = BorrowLimit(Caps(capacity=1))
    limit.served({"a", "b"}, 0.0)

    assert limit.update(late_s) == 1
