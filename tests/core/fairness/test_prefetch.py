"""How a window follows the sizes of its messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.fairness.prefetch import GROW_AFTER_S, GROWTH, SHRUNK_S, START_BYTES, Prefetch

MIB = 1024 * 1024
ROOM = 80 * MIB


def fed(prefetch: Prefetch, size: int, count: int, at: float = 0.0, every_s: float = 0.05) -> float:
    """Take *count* messages of one size, follow, and return the time after the last one."""
    for _ in range(count):
        at += every_s
        prefetch.add(size)
        if is_due(prefetch, at):
            prefetch.change(at)
    return at


def is_due(prefetch: Prefetch, now: float) -> bool:
    due_at = prefetch.due_at(now)
    return due_at is not None and due_at <= now


def test_a_window_begins_as_if_all_were_of_the_largest_size() -> None:
    """Fault 88: 512 messages x 16 lanes of the broker's maximum would end the process at each start."""
    assert Prefetch(512, ROOM).value == ROOM // START_BYTES
    assert Prefetch(512, MIB).value == 1
    assert Prefetch(512).value == 512


def test_small_messages_open_it_within_a_few() -> None:
    """The throughput of small events does not suffer."""
    prefetch = Prefetch(512, ROOM)

    fed(prefetch, 6_000, 20)

    assert prefetch.value == 512


def test_growth_comes_in_steps_and_large_ones_shrink_it_at_once() -> None:
    """One small message proves little; a few large ones are enough."""
    prefetch = Prefetch(512, ROOM)
    prefetch.add(1_000)
    assert is_due(prefetch, 1.0)
    assert prefetch.change(1.0) == 5 * GROWTH
    now = fed(prefetch, 1_000, 100, at=2.0)

    now = fed(prefetch, 12_000_000, 8, at=now, every_s=0.001)

    assert prefetch.value <= 64
    now = fed(prefetch, 12_000_000, 100, at=now, every_s=0.001)
    assert prefetch.value <= 2 * ROOM // 12_000_000
    prefetch.add(1)
    assert not is_due(prefetch, now + SHRUNK_S / 2)


def test_a_full_window_grows_although_nothing_more_comes() -> None:
    """Its messages may stay in hand for long: one that was filled since its last change knows its time."""
    prefetch = Prefetch(512, ROOM)
    prefetch.add(1_000)
    value = prefetch.change(1.0)

    for _ in range(value - 1):
        prefetch.add(1_000)
    assert prefetch.due_at(1.0) is None
    prefetch.add(1_000)
    due_at = prefetch.due_at(1.0)

    assert due_at == 1.0 + GROW_AFTER_S
    assert prefetch.due_at(due_at) == due_at
    assert prefetch.change(due_at) == value * GROWTH


@given(st.lists(st.integers(0, 128 * MIB), max_size=200), st.integers(1, 65_535), st.floats(1.0, 1e12))
def test_there_is_always_one_and_never_more_than_wanted(sizes: list[int], most: int, room: float) -> None:
    """Any sizes: a window never closes, and never takes more than its setting."""
    prefetch = Prefetch(most, room)
    for at, size in enumerate(sizes):
        prefetch.add(size)
        if is_due(prefetch, float(at)):
            prefetch.change(float(at))
        assert 1 <= prefetch.value <= most
