"""Equal faults share a line a minute, and no fault goes uncounted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.repeats import AGAIN_S, FAULTS_MAX, Repeats

MOMENTS = st.lists(st.tuples(st.floats(0, 300), st.sampled_from("abc")), max_size=60)


@given(MOMENTS)
def test_every_fault_is_reported_or_counted(moments: list[tuple[float, str]]) -> None:
    """The first of its kind and one a minute are reported, each with the number of those in between."""
    repeats, reported, left_out = Repeats[str](), dict[str, float](), dict[str, int]()
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
    repeats = Repeats[str]()
    assert (repeats.due("a", 0.0), repeats.due("a", 1.0)) == (0, None)

    assert repeats.end() == 1

    assert repeats.due("a", 2.0) == 0


@given(MOMENTS, st.floats(0.1, 90))
def test_each_fault_is_in_exactly_one_report(moments: list[tuple[float, str]], pause_s: float) -> None:
    """Also the last ones, once their fault did not come for a minute."""
    repeats, reports, latest, looked_at = Repeats[str](), 0, dict[str, float](), 0.0

    def settle(now: float) -> int:
        settled = repeats.settle(now)
        assert all(now - latest[fault] >= AGAIN_S and since for fault, since in settled)
        return sum(since for _, since in settled)

    for now, fault in sorted(moments):
        if now - looked_at > pause_s:
            reports, looked_at = reports + settle(now), now
        due = repeats.due(fault, now)
        latest[fault] = now
        reports += 0 if due is None else due + 1

    assert reports + settle(300 + AGAIN_S) == len(moments)
    assert repeats.end() == 0


def test_the_memory_and_the_reports_are_bounded() -> None:
    """No fault beyond the remembered ones is reported within the minute; a later report counts them."""
    repeats = Repeats[int]()
    reported = [repeats.due(number, 0.001 * number) for number in range(3 * FAULTS_MAX)]

    assert reported == [0] * FAULTS_MAX + [None] * 2 * FAULTS_MAX
    assert repeats.due(-1, AGAIN_S + 3) == 2 * FAULTS_MAX
    assert repeats.due(-2, AGAIN_S + 3) == 0
    assert repeats.end() == 0


def test_the_last_faults_without_room_are_in_a_report_too() -> None:
    """A minute after them, with the latest of them."""
    repeats = Repeats[int]()
    for number in range(FAULTS_MAX + 3):
        repeats.due(number, 0.0)

    assert repeats.settle(AGAIN_S - 1) == []
    assert repeats.settle(AGAIN_S) == [(FAULTS_MAX + 2, 3)]
    assert repeats.settle(AGAIN_S) == []


def test_a_forgotten_fault_leaves_its_number() -> None:
    """The next report has it, whichever fault that is of."""
    repeats = Repeats[int]()
    for number in range(FAULTS_MAX):
        repeats.due(number, 0.0)
    assert repeats.due(0, AGAIN_S - 1) is None

    assert repeats.due(FAULTS_MAX, AGAIN_S) == 1
