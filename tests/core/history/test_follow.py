"""``leveret tail`` shows every row once, for every order in which two workers commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.core.history.follow import OVERLAP_S, Follower
from consumer.core.history.records import HistoryRow, StoredStep


def step(seq: int) -> StoredStep:
    """A row with a number."""
    return StoredStep(seq, HistoryRow(0.0, "attempt", "ord-1"))


@given(st.lists(st.floats(0, OVERLAP_S - 0.6), min_size=1, max_size=30), st.sets(st.integers(0, 29)))
def test_each_row_is_seen_once(late_s: list[float], unwanted: set[int]) -> None:
    """Numbers are given in order, and each row is committed up to two seconds late; all come, none twice."""
    commits = {seq: seq * 0.1 + late for seq, late in enumerate(late_s, start=1)}
    follower, seen, now = Follower(0), [], 0.0
    while now < len(late_s) * 0.1 + 3 * OVERLAP_S:
        there = [seq for seq, at in commits.items() if at <= now]
        rows = [step(seq) for seq in there if seq > follower.after and seq not in unwanted]
        seen += [each.seq for each in follower.fresh(rows)]
        follower.looked(now, max(there, default=0))
        now += 0.5
    assert sorted(seen) == [seq for seq in commits if seq not in unwanted]


def test_old_rows_are_not_read_again() -> None:
    """The cursor advances past unwanted rows, so that a look stays cheap."""
    follower = Follower(5)
    for second in range(10):
        follower.looked(float(second), 100 + second)
    assert follower.after == 107
