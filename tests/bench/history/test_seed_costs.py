"""What a job costs, in small; the latency is left to the proof on a quiet machine."""

from __future__ import annotations

from bench.history.seed_costs import GOALS, entry_bytes, fairness, jitter_ms


def test_a_job_costs_what_the_sources_allow() -> None:
    """S1-14: jitter under 1 ms, a turn under 5 ms, 2 KB per pending job, 3 KB per parked entry."""
    turn_ms, pending_bytes = fairness(2_000)

    assert jitter_ms(1_000) < 1
    assert turn_ms < 5
    assert pending_bytes < 2 * 1024
    assert entry_bytes() < 3 * 1024


def test_the_goals_are_the_sources_numbers() -> None:
    """S1-14: median and 95th percentile are goals of the proof too."""
    goals = {goal.name: goal.text for goal in GOALS}

    assert (goals["seed_p50_ms"], goals["seed_p95_ms"]) == ("≤ 50", "≤ 250")
