"""The proofs of fairness: their goals and their arithmetic."""

from __future__ import annotations

import pytest

from bench.fairness.evenness import SLOTS, Wanting, events_for, field_of, shares
from bench.fairness.field import Wait, quantile
from bench.fairness.flood import other_lane, settled_at
from bench.prove import Goal, Measured, judge
from bench.prove_fairness import PROOFS
from bench.sink import Seen

ISSUE_TABLE = {
    "flood_other_lane_p95_ms": "≤ 250",
    "flood_same_lane_settled_s": "≤ 30",
    "flood_same_lane_p95_ms": "≤ 500",
    "flood_same_lane_worst_s": "≤ 60",
    "flood_goes_on_settled_s": "≤ 30",  # the flood goes on, so rerouting is at work
    "flood_goes_on_p95_ms": "≤ 500",
    "flood_cost_ratio": "≥ 0.9",
    "jain": "≥ 0.98",
    "weights_error": "≤ 0.05",
    "storm_p95_ms": "≤ max(1.5 x alone, alone + 30 ms)",
    "one_tenant_ratio": "≥ 0.9",
    "schedule_us": "≤ 50",
}


def test_the_proofs_have_the_promised_names_and_goals() -> None:
    """Every figure of the table is measured, against its goal."""
    assert {goal.name: goal.text for proof in PROOFS for goal in proof.goals} == ISSUE_TABLE


def test_settled_is_when_the_last_slow_event_is_over() -> None:
    """One slow event among quick ones puts it off; a leg that ends slowly never settles."""
    quick, slow = 0.1, 1.0

    assert settled_at([Wait(0, slow), Wait(1, quick), Wait(2, slow), Wait(3, quick), Wait(4, quick)]) == 3
    assert settled_at([Wait(0, quick)]) == 0
    assert settled_at([Wait(0, quick), Wait(1, slow)]) == float("inf")


def test_only_what_came_after_ten_seconds_counts() -> None:
    """The first ten seconds are the rule's own time."""
    waits = [Wait(9.9, 5.0), *(Wait(10 + n, 0.1) for n in range(20))]

    assert (other_lane(waits).value, other_lane(waits).n) == (100.0, 20)


def test_nothing_measured_is_no_figure() -> None:
    """The 95th percentile of nothing meets no goal."""
    assert quantile([], 0.95) == float("inf")
    assert quantile([1.0, 2.0, 3.0], 0.95) == 3.0


@pytest.mark.parametrize(("value", "ok"), [(41.5, True), (41.6, False)])
def test_a_limit_that_is_measured_is_judged_and_shown(value: float, ok: bool) -> None:
    """Where the goal's limit depends on the run, that limit counts."""
    goal = Goal(name="x", text="≤ max(1.5 x alone, alone + 30 ms)", unit="ms", n=1)

    figure = judge(goal, Measured(name="x", value=value, n=1, goal="≤ 41.5"), 0.0)

    assert (figure.ok, figure.goal) == (ok, "≤ 41.5")


def test_the_field_wants_half_more_than_there_is_and_two_thirds_want_more_than_their_part() -> None:
    """150 % of the slots; of 50 tenants at least 20 are to have work throughout, of every kind."""
    tenants = field_of(70.0, SLOTS)
    wanted = sum(t.deliveries for t in tenants)
    busy_s = sum(t.deliveries * t.latency_s for t in tenants)
    part = wanted / 1.5 / len(tenants)

    assert busy_s / (70.0 * SLOTS) == pytest.approx(1.5, rel=0.1)
    hungry = [t for t in tenants if t.deliveries > 1.3 * part]
    assert len(hungry) >= 20
    assert {(t.fanout, t.latency_s) for t in hungry} == {(1, 0.005), (1, 0.2), (20, 0.005), (20, 0.2)}
    assert len({e.id for e in events_for(tenants)}) == sum(t.deliveries // t.fanout for t in tenants)


def test_the_index_is_over_who_had_work_left() -> None:
    """A tenant that got all that it wanted is not compared; only the minute counts."""
    tenants = [Wanting("a", 1, 0.2, 10), Wanting("b", 2, 0.2, 10), Wanting("c", 1, 0.2, 2)]

    def seen(path: str, began: float) -> Seen:
        return Seen(
            path=path, id="x", attempt=1, status=200, began=began, ended=began, digest="", verified=False
        )

    log = [
        *(seen("a-00", at) for at in (0.0, 11.0, 12.0)),
        *(seen("b-01", at) for at in (10.0, 30.0, 70.0)),
        *(seen("c-00", at) for at in (11.0, 12.0)),
    ]

    assert shares(log, tenants, 10.0, 70.0) == {"a": 2, "b": 2}
