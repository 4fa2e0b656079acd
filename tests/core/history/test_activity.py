"""The sums of the last hour and day follow each row, and forget the old ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.core.history.activity import Activity, Tally
from consumer.core.history.records import HistoryRow

NOW = 1_800_000_000.0  # the first second of a minute and of an hour


def attempt(at: float, event: str = "ord-1", **more: Any) -> HistoryRow:
    """An attempt that failed with 503 and is tried again."""
    row = HistoryRow(at, "attempt", event, "acme", "order.created", "sub_1", f"dlv_{event}", 1, "http_5xx")
    fields: dict[str, Any] = {"status": 503, "latency_ms": 100.0, "reason": "retry"}
    return row._replace(**fields | more)


def delivered(at: float, event: str = "ord-1", **more: Any) -> HistoryRow:
    """An attempt that delivered; the first attempt of a delivery has no delivery id."""
    return attempt(
        at, event, **{"reason": "delivered", "kind": "ok", "status": 200, "delivery_id": ""} | more
    )


def of(*rows: HistoryRow) -> Activity:
    """The sums of *rows*."""
    activity = Activity()
    for seq, row in enumerate(rows, start=1):
        activity.add(seq, row)
    return activity


def test_each_minute_has_its_share_of_successes() -> None:
    """Sixty values, the oldest first; a minute without an attempt is a gap."""
    activity = of(
        attempt(NOW - 61), delivered(NOW - 1), delivered(NOW), attempt(NOW + 1, subscription_id="sub_2")
    )

    mine = activity.minutes(NOW + 2, "sub_1")
    everything = activity.figures(NOW + 2)

    assert len(mine) == 60
    assert [each.success_ratio if each else None for each in mine[-4:]] == [None, 0.0, 1.0, 1.0]
    assert everything.total.attempts == 4
    assert everything.minutes[-1] is not None
    assert everything.minutes[-1].success_ratio == 0.5
    assert activity.figures(NOW + 2, {"sub_2"}).total.attempts == 1


def test_failures_are_counted_by_code_until_one_delivers() -> None:
    """The last failure is known by the number of its row."""
    activity = of(
        delivered(NOW - 9),
        attempt(NOW - 8),
        attempt(NOW - 7, status=None, kind="timeout_total"),
        attempt(NOW - 6),
    )

    assert dict(activity.hour("sub_1").failures) == {"503": 2, "timeout_total": 1}
    assert activity.failures_in_row("sub_1") == 3
    last = activity.failed("sub_1")
    assert last is not None
    assert (last.seq, last.at) == (4, NOW - 6)
    activity.add(5, delivered(NOW))
    assert activity.failures_in_row("sub_1") == 0


@pytest.mark.parametrize(
    "end",
    [
        delivered(NOW, number=2, delivery_id="dlv_ord-1"),
        delivered(NOW),
        attempt(NOW, reason="park"),
        attempt(NOW, reason="drop"),
        attempt(NOW, step="parked", reason="exhausted"),
        attempt(NOW, step="cancelled", reason=""),
    ],
    ids=["delivered", "delivered at once after a deferral", "park", "drop", "parked", "cancelled"],
)
def test_a_delivery_waits_until_its_end(end: HistoryRow) -> None:
    """A retry, a deferral and a replay wait; each end stops that."""
    activity = of(attempt(NOW - 5), attempt(NOW - 5, "ord-2", step="deferred", reason="breaker"))

    assert activity.waiting("sub_1") == 2
    activity.add(3, end)
    assert activity.waiting("sub_1") == 1
    activity.add(4, attempt(NOW + 1, step="replayed", reason=""))
    assert activity.waiting("sub_1") == 2


def test_parked_and_replayed_deliveries_are_counted_by_minute() -> None:
    """Of everything, and of some subscriptions."""
    parked = attempt(NOW, step="parked", reason="exhausted")
    activity = of(
        parked, parked._replace(subscription_id="sub_2"), attempt(NOW + 1, step="replayed", reason="")
    )

    assert activity.parked_flow(NOW + 2)[-1] == (2, 1)
    assert activity.parked_flow(NOW + 2, {"sub_2"})[-1] == (1, 0)


def test_old_rows_are_forgotten() -> None:
    """The hour by minutes, the day by hours; a delivery without a step for a day no longer waits."""
    activity = of(attempt(NOW), delivered(NOW, "ord-2"))

    activity.forget(NOW + 3_661)
    assert activity.hour("sub_1") == Tally()
    assert activity.figures(NOW + 3_661).total.attempts == 0
    assert activity.day(NOW + 3_661, {"sub_1"}).delivered == 1
    assert activity.waiting("sub_1") == 1
    activity.forget(NOW + 90_000)
    assert activity.day(NOW + 90_000, {"sub_1"}).attempts == 0
    assert activity.waiting("sub_1") == 0
    assert activity.failed("sub_1") is None


@given(st.lists(st.floats(0.2, 30_000), min_size=1, max_size=200))
def test_the_percentile_is_exact_to_a_tenth(latencies: list[float]) -> None:
    """It is near the latency that 95 % of the attempts do not exceed."""
    activity = of(*(delivered(NOW, latency_ms=each) for each in latencies))

    exact = sorted(latencies)[-(-95 * len(latencies) // 100) - 1] / 1000

    assert activity.hour("sub_1").p95_s == pytest.approx(exact, rel=0.1)


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans(), st.sampled_from(["sub_1", "sub_2"]))))
def test_sums_by_endpoint_equal_the_sum_of_their_minutes(steps: list[tuple[int, bool, str]]) -> None:
    """Whatever was forgotten on the way."""
    activity = Activity()
    for seq, (minute, ok, target) in enumerate(sorted(steps), start=1):
        at = NOW + minute * 60
        activity.add(seq, (delivered if ok else attempt)(at, subscription_id=target))
        activity.forget(at)
    now = NOW + (max(steps)[0] if steps else 0) * 60

    for target in ("sub_1", "sub_2"):
        minutes = [each for each in activity.minutes(now, target) if each is not None]
        assert activity.hour(target).attempts == sum(each.attempts for each in minutes)
        assert activity.figures(now, {target}).total == activity.hour(target)
