"""S2-7: the status of a delivery is a pure function of its rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.history.records import HistoryRow, Step
from consumer.core.history.status import DeliveryStatus, ended_at, state_of

NOW = 1_767_225_600.0
WAITS = ("retry", "defer")


def row(step: str = "attempt", at: float = NOW, **more: Any) -> HistoryRow:
    """A step of one delivery."""
    return HistoryRow(at=at, step=step, event_id="ord-1", tenant="acme", subscription_id="sub_1", **more)


attempts = st.builds(
    lambda at, reason, wait: row(
        at=NOW + at, reason=reason, latency_ms=10.0, wait_ms=wait if reason in WAITS else None
    ),
    st.integers(0, 100),
    st.sampled_from(["delivered", "retry", "defer", "park", "drop"]),
    st.floats(0, 100_000),
)
others = st.builds(
    lambda at, step: row(step, NOW + at, wait_ms=5_000.0 if step == "deferred" else None),
    st.integers(0, 100),
    st.sampled_from(["deferred", "parked", "cancelled", "replayed"]),
)
histories = st.lists(attempts | others, max_size=8)
times = st.floats(NOW - 10, NOW + 300)


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([row(reason="retry", wait_ms=9_000.0)], DeliveryStatus.WAITING),
        ([row("deferred", reason="breaker", wait_ms=9_000.0)], DeliveryStatus.WAITING),
        ([row(reason="retry", wait_ms=500.0)], DeliveryStatus.DELIVERING),
        ([row(reason="delivered")], DeliveryStatus.DELIVERED),
        ([row(reason="park")], DeliveryStatus.PARKED),
        ([row(reason="park"), row("parked")], DeliveryStatus.PARKED),
        ([row(reason="drop")], DeliveryStatus.CANCELLED),
        ([row(reason="retry", wait_ms=1e6), row("cancelled", NOW + 1)], DeliveryStatus.CANCELLED),
        ([row("parked"), row("replayed")], DeliveryStatus.DELIVERING),
        ([row(reason="delivered"), row("replayed", NOW + 0.5)], DeliveryStatus.DELIVERING),
    ],
)
def test_the_last_step_decides(rows: list[HistoryRow], status: DeliveryStatus) -> None:
    """S2-7: waiting, delivering, delivered, parked and cancelled, one second later."""
    state = state_of(rows, NOW + 1)
    assert state is not None
    assert state.status is status
    assert (state.until is not None) == (status is DeliveryStatus.WAITING)


@given(histories, times, st.randoms())
def test_the_order_of_the_rows_does_not_matter(rows: list[HistoryRow], now: float, random: Random) -> None:
    """S2-7: two workers may write their rows in any order."""
    shuffled = random.sample(rows, len(rows))
    assert state_of(shuffled, now) == state_of(rows, now)


@given(histories, times)
def test_steps_of_the_whole_event_do_not_count(rows: list[HistoryRow], now: float) -> None:
    """Received and unmatched belong to no delivery; without its own steps it has no state."""
    whole = [row(step.value, NOW + 1_000) for step in (Step.RECEIVED, Step.UNMATCHED)]
    assert state_of(rows + whole, now) == state_of(rows, now)
    assert (state_of(rows, now) is None) == (not rows)


@given(histories, times)
def test_only_a_replay_follows_a_success(rows: list[HistoryRow], now: float) -> None:
    """S2-7: a doubled delivery message that failed later leaves the delivery delivered."""
    done = row(at=NOW + 50, reason="delivered")
    state = state_of([done, *(each for each in rows if each.step != "replayed")], now)
    assert state is not None
    assert state.status is DeliveryStatus.DELIVERED


@given(histories.filter(bool), times)
def test_a_wait_is_over_at_its_end(rows: list[HistoryRow], now: float) -> None:
    """S2-7: waiting names a time that has not come; at that time the delivery is being delivered."""
    state = state_of(rows, now)
    assert state is not None
    assert state.since in {ended_at(each) for each in rows}
    if state.status is DeliveryStatus.WAITING:
        assert state.until is not None
        assert state.until > now
        later = state_of(rows, state.until)
        assert later is not None
        assert later.status is DeliveryStatus.DELIVERING
