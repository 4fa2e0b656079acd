"""Equal faults share a line a minute, and no fault goes uncounted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.repeats import AGAIN_S, FAULTS_MAX, Repeats

MOMENTS = st.lists(st.tuples(st.floats(0, 300), st.sampled_from("abc")), max_size=60)


@given(MOMENTS)
def test_every_fault_is_reported_or_counted(moments: list[tuple[float, str]]) -> None:
    """The first of its kind and one a minute are reported, each with the number of those in between."""
    repeats, reported, left_out = Repeats(), dict[str, float](), dict[str, int]()
    for now, fault in sorted(moments):
        due = repeats.due(fault, now)
        if fault in reported and now - reported[fault] < AGAIN_S:
            assert due is None
            left_out[fault] = left_out.get(fault, 0) + 1
        else:
            assert due == left_out.pop(fault, 0)
            reported[fault] = now

    assert repeats.end() == sum(left_out.values())
    assert repeats.end() == 0


def test_the_first_fault_after_the_end_is_reported() -> None:
    """A fault that comes back is news."""
    repeats = Repeats()
    assert (repeats.due("a", 0.0), repeats.due("a", 1.0)) == (0, None)

    assert repeats.end() == 1

    assert repeats.due("a", 2.0) == 0


def test_the_memory_is_bounded() -> None:
    """Of more faults than are remembered, the one that was reported longest ago is forgotten."""
    repeats = Repeats()
    for number in range(FAULTS_MAX + 1):
        assert repeats.due(number, 0.0) == 0

    assert repeats.due(FAULTS_MAX, 1.0) is None
    assert repeats.due(0, 1.0) == 0
